/**
 * Reports frontends that connect and disconnect: which are refused or refuse the worker, and why.
 *
 * A refused frontend reconnects every few seconds, so the same reason is reported once a minute.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerEvent } from '../../worker/index.ts'

const SAME_AGAIN_MS = 60_000

export class PeerReports {
  readonly #observe: (event: WorkerEvent) => void
  readonly #toldAtMs = new Map<string, number>()

  constructor(observe: (event: WorkerEvent) => void) {
    this.#observe = observe
  }

  /** `wasReady`: both sides had authenticated. */
  gone(reason: BatonError, wasReady: boolean): void {
    const cause = reason.cause instanceof BatonError ? reason.cause : reason
    if (wasReady) {
      if (cause.code === 'backend.worker_differs') this.#tell('turned-away', cause)
    } else if (reason.code !== 'transport.disconnected') this.#tell('frontend-refused', reason)
  }

  #tell(kind: 'turned-away' | 'frontend-refused', error: BatonError): void {
    const nowMs = performance.now()
    const key = `${kind} ${error.message}`
    if (nowMs - (this.#toldAtMs.get(key) ?? -Infinity) < SAME_AGAIN_MS) return
    for (const [known, atMs] of this.#toldAtMs) {
      if (nowMs - atMs >= SAME_AGAIN_MS) this.#toldAtMs.delete(known)
    }
    this.#toldAtMs.set(key, nowMs)
    this.#observe({ kind, error: error.toValue() })
  }
}
