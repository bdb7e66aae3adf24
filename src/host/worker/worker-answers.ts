/**
 * A worker process's answers to administrative commands over the request plane: from `baton roll`, the frontend's
 * `/admin` or a controller.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { Worker, WorkerStatus } from '../../worker/index.ts'
import { parseDisaggregationMode } from '../../request/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { RoleHold } from '../../router/index.ts'
import type { WorkerAnswers } from '../../wire/index.ts'

/** How the worker comes back after `restart`. */
type RestartWay =
  /** Its parent starts a replacement, then it exits. */
  | 'replaced'
  /** It exits, and its supervisor (systemd, Kubernetes) starts another one. */
  | 'exits'
  /** It shares a process with others. */
  | 'impossible'

/** Milliseconds within which frontends learn that a worker leaves. */
export const LEAVE_MS = 2_500

export interface WorkerRestart {
  way(): RestartWay
  begin(): void
}

/** After an administrator's change, frontends leave the role alone for this time. */
const ADMIN_REST_MS = 60_000

export type ChangeRole = (role: DisaggregationMode, why: string) => void

interface HostedAnswersOptions {
  readonly worker: Worker
  readonly restart: WorkerRestart | undefined
  readonly changeRole: ChangeRole | undefined
  /** Absent with `changeRole`. */
  readonly roleHold: RoleHold | undefined
  readonly now: () => number
  readonly textPiece: (question: unknown) => Promise<unknown>
}

export class HostedAnswers implements WorkerAnswers {
  readonly #options: HostedAnswersOptions

  constructor(options: HostedAnswersOptions) {
    this.#options = options
  }

  async command(question: unknown): Promise<unknown> {
    const { worker } = this.#options
    const command = isRecord(question) ? question['command'] : undefined
    switch (command) {
      case 'status':
        return this.#withRestart(worker.status())
      case 'drain':
        return this.#withRestart(await worker.drain(LEAVE_MS))
      case 'resume':
        return this.#withRestart(await worker.resume())
      case 'restart':
        return this.#restart()
      case 'role':
        return this.#role(isRecord(question) ? question : {})
      case 'role_hold':
        return this.#holdRole(isRecord(question) ? question : {})
      case 'role_release':
        return this.#releaseRole(isRecord(question) ? question : {})
      case 'clear_kv':
        return (await worker.control('clear_kv_blocks', {})) ?? null
      default:
        throw new BatonError('request.not_found', `unknown command ${String(command)} for a worker`)
    }
  }

  textPiece(question: unknown): Promise<unknown> {
    return this.#options.textPiece(question)
  }

  #withRestart(status: WorkerStatus): unknown {
    return { ...status, restart: this.#options.restart?.way() ?? 'impossible' }
  }

  #holdRole({ by, for_ms: forMs }: Readonly<Record<string, unknown>>): unknown {
    const { roleHold, now } = this.#options
    if (typeof by !== 'string' || typeof forMs !== 'number' || !(forMs >= 0)) {
      throw new BatonError('request.invalid_argument', '`by` or `for_ms` is invalid')
    }
    if (roleHold === undefined) throw new BatonError('request.conflict', 'this role is fixed')
    const { granted, leftMs } = roleHold.ask(by, forMs, now())
    return { granted, left_ms: leftMs }
  }

  #releaseRole({ by }: Readonly<Record<string, unknown>>): unknown {
    if (typeof by === 'string') this.#options.roleHold?.release(by)
    return null
  }

  /**
   * `by`: the hold of a frontend's controller, and `from`: the role that it has seen; without them an administrator asks.
   */
  #role({ role, reason, by, from }: Readonly<Record<string, unknown>>): unknown {
    const { changeRole, worker } = this.#options
    const wanted = parseDisaggregationMode(String(role))
    if (typeof by === 'string') this.#checkHold(by, from)
    if (wanted === worker.card?.mode) return this.#withRestart(worker.status())
    if (changeRole === undefined) {
      throw new BatonError(
        'request.conflict',
        'the role of this worker is fixed: start it with --mode auto',
      )
    }
    if (wanted === 'agg') {
      throw new BatonError(
        'request.invalid_argument',
        '`role` is invalid: expected prefill or decode',
      )
    }
    if (typeof by !== 'string') this.#options.roleHold?.restFor(ADMIN_REST_MS, this.#options.now())
    const why = typeof reason === 'string' ? reason : 'requested by an administrator'
    setImmediate(() => changeRole(wanted, why))
    return this.#withRestart(worker.status())
  }

  #checkHold(by: string, from: unknown): void {
    const { worker, roleHold, now } = this.#options
    const mode = worker.card?.mode
    if (mode !== from) {
      const text = `the role of this worker is not ${String(from)} any more, but ${String(mode)}`
      throw new BatonError('request.conflict', text)
    }
    if (roleHold?.isHeldBy(by, now()) === true) return
    throw new BatonError('request.conflict', 'this worker does not hold its role for this change')
  }

  #restart(): unknown {
    const { restart, worker } = this.#options
    const way = restart?.way() ?? 'impossible'
    if (restart === undefined || way === 'impossible') {
      const text = 'a worker inside the process of its frontend cannot be restarted alone'
      throw new BatonError('request.conflict', text)
    }
    // The answer is sent first.
    setImmediate(() => restart.begin())
    return this.#withRestart(worker.status())
  }
}
