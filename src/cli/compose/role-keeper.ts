/**
 * `--auto-roles`: checks every model's worker pools periodically and tells workers to change their role when the controller
 * in `router` decides so. The laboratory runs the same controller with virtual time.
 *
 * Several frontends check the same model and may decide at the same time, so the workers must agree to a change
 * (`changeByAgreement`).
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { BatonError, isRecord } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { ModelRegistry } from '../../frontend/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import {
  changeByAgreement,
  DEFAULT_ROLE_CONTROL,
  RoleController,
  roleLoadOf,
} from '../../router/index.ts'
import type {
  HoldAnswer,
  RankStatus,
  Role,
  RoleChange,
  RoleControllerOptions,
  RoleOutcome,
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

  #look(): void {
    const { models } = this.#options.registry
    const keys = new Set(models.map(keyOf))
    for (const key of this.#controllers.keys()) if (!keys.has(key)) this.#controllers.delete(key)
    for (const model of models) this.#lookAt(model)
  }

  #lookAt(model: ServedModel): void {
    const controller = this.#controllerOf(keyOf(model))
    const change = controller.decide(viewOf(model, performance.now()))
    if (change === null) return
    const { workerId, from, to, why } = change
    const of = { model: model.name, workerId, from, to, why }
    const { logger } = this.#options
    logger.warn(of, 'a worker is asked to change its role')
    this.#change(model, change)
      .then((outcome) => {
        if (outcome.kind === 'changed') return
        controller.rest(performance.now(), outcome.leftMs)
        logger.warn({ ...of, why: outcome.why }, 'the role of the worker is not changed')
      })
      .catch((thrown: unknown) => {
        const { message } = BatonError.from(thrown)
        logger.warn({ ...of, message }, 'the role of the worker could not be changed')
      })
  }

  async #change(model: ServedModel, { from, to, why, workerId }: RoleChange): Promise<RoleOutcome> {
    const { command } = this.#options
    const by = randomUUID()
    const inRole = model.reachable.filter(({ mode }) => mode === from)
    const canChange = (card: WorkerCard): boolean => card.changesRole === true
    const idOf = (card: WorkerCard): WorkerId => card.workerId
    const send = async (
      id: WorkerId,
      body: Readonly<Record<string, unknown>>,
    ): Promise<unknown> => {
      const card = model.cardOf(id)
      if (card === undefined) throw new BatonError('request.not_found', `worker ${id} has left`)
      return await command(card, { by, ...body })
    }
    return await changeByAgreement(
      { workerId },
      {
        changeable: model.reachable.filter(canChange).map(idOf),
        staying: inRole.filter(canChange).map(idOf),
        fixed: inRole.filter((card) => !canChange(card)).length,
      },
      {
        hold: async (id) =>
          holdAnswerOf(await send(id, { command: 'role_hold', for_ms: this.#control.restMs })),
        release: (id) => send(id, { command: 'role_release' }),
        change: (id) => send(id, { command: 'role', from, role: to, reason: why }),
      },
    )
  }

  #controllerOf(key: string): RoleController {
    const known = this.#controllers.get(key)
    if (known !== undefined) return known
    const controller = new RoleController(this.#control)
    this.#controllers.set(key, controller)
    return controller
  }
}

function holdAnswerOf(answer: unknown): HoldAnswer {
  const { granted, left_ms: leftMs } = isRecord(answer) ? answer : {}
  if (granted === true) return { granted, leftMs: 0 }
  if (typeof leftMs === 'number' && leftMs > 0) return { granted: false, leftMs }
  throw new BatonError('transport.protocol', "the worker's answer is invalid")
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
