/**
 * While the engine is unavailable (an upstream server that does not respond), its worker leaves discovery: it gets no
 * new requests, and running ones are not affected.
 */
import type { BatonError } from '../base/index.ts'
import type { Membership } from './membership.ts'
import type { WorkerObserver } from './worker-event.ts'

interface EngineAbsenceOptions {
  readonly observe: WorkerObserver
}

export class EngineAbsence {
  readonly #options: EngineAbsenceOptions
  #reason: BatonError | null = null
  #membership: Membership | null = null

  constructor(options: EngineAbsenceOptions) {
    this.#options = options
  }

  /** Null: the engine is available. */
  get text(): string | null {
    return this.#reason === null ? null : `no new requests: ${this.#reason.message}`
  }

  /** Called by the engine at any time after its start. */
  set(reason: BatonError | null): void {
    this.#reason = reason
    this.#options.observe(
      reason === null
        ? { kind: 'engine-away', away: false }
        : { kind: 'engine-away', away: true, error: reason.toValue() },
    )
    this.#tell()
  }

  /** The worker has joined discovery. */
  joined(membership: Membership): void {
    this.#membership = membership
    if (this.#reason !== null) this.#tell()
  }

  /** The worker shuts down and will not rejoin. */
  close(): void {
    this.#membership = null
  }

  /** Only the newest state counts: an engine may change it faster than discovery can be told. */
  #tell(): void {
    void this.#membership?.setAbsent('engine-away', this.#reason !== null)
  }
}
