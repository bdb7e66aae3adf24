/**
 * Collects from a request's events where it ran and how long its phases took, for its log line at the end.
 */
import { InFlightMap, roundedMs } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { FrontendEvent } from '../../frontend/index.ts'

interface Phases {
  prefillWorkerId?: WorkerId
  decodeWorkerId?: WorkerId
  routerQueueMs?: number
  prefillQueueMs?: number
  prefillMs?: number
  kvTransferMs?: number
  decodeQueueMs?: number
  migrations?: number
}

export class RequestPhases {
  readonly #running = new InFlightMap<string, Phases>()

  /**
   * Returns the facts when the request has ended. A phase that occurred twice (a migration, several choices) is
   * summed.
   */
  observe(event: FrontendEvent, requestId: string): Phases | null {
    if (event.kind === 'received') {
      this.#running.set(requestId, {})
      return null
    }
    const phases = this.#running.get(requestId)
    if (phases === undefined) return null
    if (event.kind === 'ended') this.#running.delete(requestId)
    else note(phases, event)
    return event.kind === 'ended' ? phases : null
  }
}

function note(phases: Phases, event: FrontendEvent): void {
  const add = (name: Exclude<keyof Phases, `${string}WorkerId`>, value: number): void => {
    phases[name] = roundedMs((phases[name] ?? 0) + value)
  }
  switch (event.kind) {
    case 'routed':
      if (event.phase !== 'decode') phases.prefillWorkerId = event.workerId
      if (event.phase !== 'prefill') phases.decodeWorkerId = event.workerId
      return add('routerQueueMs', event.queuedMs)
    case 'prefillStarted':
      return add('prefillQueueMs', event.queuedMs)
    case 'prefillDone':
      return add('prefillMs', event.elapsedMs)
    case 'kvTransferred':
      return add('kvTransferMs', event.elapsedMs)
    case 'decodeStarted':
      return add('decodeQueueMs', event.queuedMs)
    case 'migrated':
      return add('migrations', 1)
    default:
  }
}
