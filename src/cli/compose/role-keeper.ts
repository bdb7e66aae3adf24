/**
 * `--auto-roles`: looks at every model's pools now and then, and tells workers to change their role where the controller
 * of room `router` says so. The laboratory drives the same controller with virtual time.
 */
import type { Logger } from 'pino'
import { BatonError } from '../../base/index.ts'
import type { ModelRegistry } from '../../frontend/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { DEFAULT_ROLE_CONTROL, RoleController, roleLoadOf } from '../../router/index.ts'
import type { RankStatus, Role, RoleControllerOptions, RoleView } from '../../router/index.ts'

type ServedModel = ModelRegistry['models'][number]

interface RoleKeeperOptions {
  readonly registry: ModelRegistry
  readonly ttftGoalMs: number
  readonly command: (
    card: WorkerCard,
    command: Readonly<Record<string, unknown>>,
  ) => Promise<unknown>
  readonly logger: Logger
  /** Other frontends look too: what one has decided gives all a rest. */
  readonly onChange: (model: string, version: string) => void
  readonly control?: Partial<RoleControllerOptions>
}

const LOOKS_PER_HOLD = 5

export class RoleKeeper {
  readonly #options: RoleKeeperOptions
  readonly #control: RoleControllerOptions
  readonly #controllers = new Map<string, RoleController>()
  readonly #timer: NodeJS.Timeout

  constructor(options: RoleKeeperOptions) {
    const { ttftGoalMs, control } = options
    this.#options = options
    this.#control = { ...DEFAULT_ROLE_CONTROL, ttftGoalMs, ...control }
    this.#timer = setInterval(() => this.#look(), this.#control.holdMs / LOOKS_PER_HOLD)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** Another frontend has changed a worker of the model. */
  changedElsewhere(model: string, version: string): void {
    this.#controllerOf(`${model}@${version}`).rest(performance.now())
  }

  #look(): void {
    const { models } = this.#options.registry
    const keys = new Set(models.map(keyOf))
    for (const key of this.#controllers.keys()) if (!keys.has(key)) this.#controllers.delete(key)
    for (const model of models) this.#lookAt(model)
  }

  #lookAt(model: ServedModel): void {
    const { logger, onChange, command } = this.#options
    const change = this.#controllerOf(keyOf(model)).decide(viewOf(model, performance.now()))
    const card = change === null ? undefined : model.cardOf(change.workerId)
    if (change === null || card === undefined) return
    const { from, to, why, workerId } = change
    logger.warn({ model: model.name, workerId, from, to, why }, 'a worker is to change its role')
    onChange(model.name, model.version)
    command(card, { command: 'role', role: to, reason: why }).catch((thrown: unknown) => {
      const { message } = BatonError.from(thrown)
      logger.warn({ model: model.name, workerId, message }, 'the worker does not change its role')
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
