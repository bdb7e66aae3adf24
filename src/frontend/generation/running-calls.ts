/**
 * The generating calls that have not ended: limits their number, and reports each exactly once.
 */
import { traceparentOf } from '../../api/index.ts'
import { KeyHold } from '../access/key-hold.ts'
import type { KeyLimits } from '../access/key-limits.ts'
import { BatonError, InFlightMap } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { HttpCall } from '../http/http-call.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import { CallRecord } from './call-record.ts'
import type { BeginTrace, CallOwner } from './call-record.ts'
import type { Endpoint, FrontendObserver } from './frontend-event.ts'

interface RunningCallsOptions {
  readonly clock: Clock
  readonly observer: FrontendObserver
  readonly requestsMax: number
  readonly beginTrace?: BeginTrace | undefined
  readonly limits: KeyLimits
}

export class RunningCalls implements CallOwner {
  readonly clock: Clock
  readonly observer: FrontendObserver
  readonly beginTrace: BeginTrace | undefined
  readonly #requestsMax: number
  readonly #records = new InFlightMap<string, CallRecord>()
  readonly #limits: KeyLimits
  isDraining = false

  constructor(options: RunningCallsOptions) {
    this.clock = options.clock
    this.observer = options.observer
    this.beginTrace = options.beginTrace
    this.#requestsMax = options.requestsMax
    this.#limits = options.limits
  }

  /** Includes streams that have not ended. */
  get count(): number {
    return this.#records.size
  }

  has(requestId: string): boolean {
    return this.#records.has(requestId)
  }

  /** Ends every running reply with an event that says why. */
  cutOff(error: BatonError): void {
    for (const record of this.#records.values()) record.reply?.cutOff(error)
  }

  /** Admits the call or throws; an error of `answer` becomes the call's end. */
  async serve(
    { head, requestId, caller }: HttpCall,
    endpoint: Endpoint,
    answer: (record: CallRecord) => Promise<HttpReply>,
  ): Promise<HttpReply> {
    const hold = caller.key === null ? null : new KeyHold(this.#limits, caller.key)
    const parent = traceparentOf(head.headers)
    const record = new CallRecord(this, { endpoint, requestId, parent, caller, hold })
    this.#records.set(requestId, record)
    try {
      this.#admit()
      hold?.admit()
      return await answer(record)
    } catch (thrown) {
      const error = BatonError.from(thrown)
      record.ended({ status: error.row.httpStatus, error, usage: null, choices: 0 })
      throw error
    }
  }

  callEnded({ requestId }: CallRecord): void {
    this.#records.delete(requestId)
  }

  /** Counts a call that works but does not generate as a request of its key. Throws `request.rate_limited`. */
  countOnly({ caller: { key } }: HttpCall): void {
    if (key !== null) this.#limits.admit(key)(0)
  }

  #admit(): void {
    if (this.isDraining) {
      throw new BatonError('backend.worker_draining', 'the service is shutting down')
    }
    const requestsMax = this.#requestsMax
    if (this.#records.size <= requestsMax) return
    const text = `too many requests in flight: at most ${requestsMax} are allowed`
    throw new BatonError('capacity.exhausted', text, { data: { limit: requestsMax } })
  }
}
