/**
 * `--auto-roles`: checks every model's worker pools periodically and tells workers to change their role when the controller
 * in `router` decides so. The laboratory runs the same controller with virtual time.
 *
 * Several frontends check the same model, so a frontend announces a change to the others first (`RoleClaims`).
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { BatonError } from '../../base/index.ts'
import type { ModelRegistry } from '../../frontend/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { DEFAULT_ROLE_CONTROL, RoleClaims, RoleController, roleLoadOf } from '../../router/index.ts'
import type {
  RankStatus,
  Role,
  RoleChange,
  RoleControllerOptions,
  RoleView,
} from '../../router/index.ts'

type ServedModel = ModelRegistry['models'][number]

interface RoleKeeperOptions {
  readonly registry: ModelRegistry
  readonly ttftGoalMs: number
  readonly command: (
    card: WorkerCard,
    command: Readonly<Record<string, unknown>>,
  ) => Promise<unknown>
  readonly logger: Logger
  /** Tells the other frontends that this one is about to change a worker (`by` is its name), or has done so (null). */
  readonly tell: (model: string, version: string, by: string | null) => void
  readonly control?: Partial<RoleControllerOptions>
}

const LOOKS_PER_HOLD = 5
/** Longer than a message to another frontend takes. */
const CLAIM_MS = 1_000

export class RoleKeeper {
  readonly #options: RoleKeeperOptions
  readonly #control: RoleControllerOptions
  readonly #controllers = new Map<string, RoleController>()
  readonly #self = randomUUID()
  readonly #claims = new RoleClaims(this.#self)
  readonly #timer: NodeJS.Timeout
  readonly #waiting = new Set<NodeJS.Timeout>()

  constructor(options: RoleKeeperOptions) {
    const { ttftGoalMs, control } = options
    this.#options = options
    this.#control = { ...DEFAULT_ROLE_CONTROL, ttftGoalMs, ...control }
    this.#timer = setInterval(() => this.#look(), this.#control.holdMs / LOOKS_PER_HOLD)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
    for (const timer of this.#waiting) clearTimeout(timer)
  }

  /** Another frontend is about to change a worker of the model, or has (`by` is null). */
  heard(model: string, version: string, by: string | null): void {
    const key = `${model}@${version}`
    const answer = this.#claims.heard(key, by)
    if (answer.kind === 'keep') return
    this.#controllerOf(key).rest(performance.now())
    if (answer.kind === 'rest') return
    const { workerId, from, to } = answer.change
    this.#options.logger.warn(
      { model, workerId, from, to },
      'another frontend is changing a role of this model: this frontend leaves it to that one',
    )
  }

  #look(): void {
    const { models } = this.#options.registry
    const keys = new Set(models.map(keyOf))
    for (const key of this.#controllers.keys()) if (!keys.has(key)) this.#controllers.delete(key)
    for (const model of models) this.#lookAt(model)
  }

  #lookAt(model: ServedModel): void {
    const key = keyOf(model)
    const change = this.#controllerOf(key).decide(viewOf(model, performance.now()))
    if (change === null) return
    this.#claims.claim(key, change)
    this.#options.tell(model.name, model.version, this.#self)
    const timer = setTimeout(() => {
      this.#waiting.delete(timer)
      const taken = this.#claims.take(key)
      if (taken !== null) this.#change(model, taken)
    }, CLAIM_MS)
    timer.unref()
    this.#waiting.add(timer)
  }

  #change(model: ServedModel, { from, to, why, workerId }: RoleChange): void {
    const { logger, tell, command } = this.#options
    const card = model.cardOf(workerId)
    // It may have left, or an administrator may have changed it meanwhile.
    if (card?.mode !== from) return
    logger.warn(
      { model: model.name, workerId, from, to, why },
      'a worker is told to change its role',
    )
    tell(model.name, model.version, null)
    command(card, { command: 'role', role: to, reason: why }).catch((thrown: unknown) => {
      const { message } = BatonError.from(thrown)
      logger.warn(
        { model: model.name, workerId, message },
        'the role of the worker could not be changed',
      )
    })
  }

  #controllerOf(key: string): RoleController {
    const known = this.#controllers.get(key)
    if (known !== undefined) return known
    const controller = new RoleController(this.#control)
    this.#controllers.set(key, controller)
    return controller
  }
}

function keyOf({ name, version }: ServedModel): string {
  return `${name}@${version}`
}

function viewOf(model: ServedModel, nowMs: number): RoleView {
  const { prefill, decode } = model.router.status()
  const changeable = (role: Role, ranks: readonly RankStatus[]) => {
    const busy = new Map<string, number>()
    for (const { workerId, activeRequests } of ranks)
      busy.set(workerId, (busy.get(workerId) ?? 0) + activeRequests)
    return model.reachable
      .filter(({ mode, changesRole }) => mode === role && changesRole === true)
      .map(({ workerId }) => workerId)
      .toSorted((left, right) => (busy.get(left) ?? 0) - (busy.get(right) ?? 0))
  }
  return {
    nowMs,
    prefill: roleLoadOf(prefill),
    decode: roleLoadOf(decode),
    changeable: {
      prefill: changeable('prefill', prefill.ranks),
      decode: changeable('decode', decode.ranks),
    },
  }
}
