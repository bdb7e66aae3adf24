/**
 * The life of one call with all its choices, from the first send to the last end.
 *
 * The status of a stream is decided at its first item: before that an error is the reply's status, later it is
 * an event. The call ends exactly once: all choices are done, one of them failed (which cancels the others),
 * the client disconnected, or a deadline passed.
 *
 * waiting ── first item ──▶ running ── last choice ends ──▶ done
 * └────────── error, client gone, deadline ─────────────▶ done
 */
import { BatonError } from '../../base/index.ts'
import type { CancelSignal, Clock, Timer } from '../../base/index.ts'
import type { GenerateRequest, PhaseEvent, RequestService } from '../../request/index.ts'
import type { ChoiceOwner, ChoiceSink } from '../reply/choice-sink.ts'
import type { FrontendLimits } from './frontend-options.ts'
import { clientGone, deadlineError, inStage } from '../http/stage-error.ts'
import type { Stage } from '../http/stage-error.ts'

/** The writer of the reply. */
export interface ExchangeListener {
  /** First item of the first choice. */
  began(): void
  phase(event: PhaseEvent): void
  /** All choices have ended. */
  completed(): void
  /** An error after the status was decided: it becomes an event. */
  brokeOff(error: BatonError): void
  keepAlive(): void
  /** Called once, after everything else; `error` is null on success. */
  ended(error: BatonError | null): void
}

interface ExchangeOptions {
  readonly clock: Clock
  readonly limits: FrontendLimits
  readonly signal: CancelSignal
  /** The status of a stream is decided by its first item, that of a whole reply by its end. */
  readonly streamed: boolean
  readonly listener: ExchangeListener
}

/** Settles the promise of the reply's status. */
interface Decision {
  resolve(): void
  reject(error: BatonError): void
}

export class Exchange implements ChoiceOwner {
  readonly #options: ExchangeOptions
  #choices: readonly ChoiceSink[] = []
  #state: 'waiting' | 'running' | 'done' = 'waiting'
  #decided = false
  /** Null: the status is decided, or not asked for yet. */
  #decision: Decision | null = null
  #open = 0
  #stage: Stage = 'route'
  #watch: Timer | null = null
  /** Number of items at the last look, and for how long there was no other. */
  #itemsSeen = 0
  #silentMs = 0
  #silenceLimitMs = 0
  readonly #onAbort = (): void => this.#fail(clientGone(this.#stage, this.#options.signal), 'kill')
  readonly #onLook = (): void => this.#look()

  constructor(options: ExchangeOptions) {
    this.#options = options
  }

  /** Resolves when the reply's status is decided; rejects with the error that becomes the status. */
  run(
    serviceOf: (choiceIndex: number) => RequestService,
    requests: readonly GenerateRequest[],
    choices: readonly ChoiceSink[],
  ): Promise<void> {
    const decided = new Promise<void>((resolve, reject) => {
      this.#decision = { resolve, reject }
    })
    const { signal } = this.#options
    this.#choices = choices
    this.#open = choices.length
    if (signal.aborted) {
      this.#onAbort()
      return decided
    }
    signal.addEventListener('abort', this.#onAbort)
    this.#watchFirstItem()
    requests.forEach((request, i) => {
      const choice = choices[i]
      if (this.#state === 'done' || choice === undefined) return
      try {
        choice.attach(serviceOf(i).send(request, choice))
      } catch (thrown) {
        // Services never throw by contract; after an internal error in one the exchange must end all the same.
        this.#fail(BatonError.from(thrown), 'kill')
      }
    })
    return decided
  }

  /** True when the reply's status is decided. */
  get isDecided(): boolean {
    return this.#decided
  }

  nowMs(): number {
    return this.#options.clock.nowMs()
  }

  choiceBegan(): void {
    if (this.#state === 'waiting') this.#begin()
  }

  /** Ends the reply for a reason on the server's side. */
  cutOff(error: BatonError): void {
    this.#fail(inStage(error, this.#stage), 'kill')
  }

  choicePhase(event: PhaseEvent): void {
    if (event.kind === 'routed' && this.#stage === 'route') this.#stage = 'prefill'
    this.#options.listener.phase(event)
  }

  choiceEnded(_choice: ChoiceSink): void {
    this.#open -= 1
    if (this.#open > 0 || this.#state === 'done') return
    this.#finish(null, () => this.#options.listener.completed())
  }

  choiceFailed(_choice: ChoiceSink, error: BatonError): void {
    this.#fail(inStage(error, this.#stage), 'stop')
  }

  #begin(): void {
    this.#state = 'running'
    this.#stage = 'decode'
    this.#watch?.cancel()
    this.#options.listener.began()
    if (this.#options.streamed) this.#decide()
    this.#watchSilence()
  }

  #decide(): void {
    if (this.#decided) return
    this.#decided = true
    this.#decision?.resolve()
    this.#decision = null
  }

  #fail(error: BatonError, kind: 'stop' | 'kill'): void {
    if (this.#state === 'done') return
    for (const choice of this.#choices) choice.cancel(kind)
    if (this.#decided) {
      this.#finish(error, () => {
        // The code does not tell whether the client has left: a worker or a plugin may use any.
        if (!this.#options.signal.aborted) this.#options.listener.brokeOff(error)
      })
      return
    }
    this.#finish(error, () => this.#decision?.reject(error))
  }

  /** The only way to `done`. */
  #finish(error: BatonError | null, last: () => void): void {
    this.#state = 'done'
    this.#watch?.cancel()
    this.#options.signal.removeEventListener('abort', this.#onAbort)
    last()
    this.#options.listener.ended(error)
    if (error === null) this.#decide()
  }

  /** A stream that waits long for its first item starts anyway, so that it can be kept alive. */
  #watchFirstItem(): void {
    const { clock, limits, streamed } = this.#options
    const beginEarly = streamed && limits.commitAfterMs < limits.firstItemMs
    this.#watch = clock.after(beginEarly ? limits.commitAfterMs : limits.firstItemMs, () => {
      if (!beginEarly) {
        this.#fail(deadlineError(this.#stage, limits.firstItemMs), 'kill')
        return
      }
      this.#decide()
      this.#options.listener.keepAlive()
      this.#watchSilence(limits.firstItemMs, limits.commitAfterMs)
    })
  }

  #itemCount(): number {
    return this.#choices.reduce((sum, choice) => sum + choice.itemCount, 0)
  }

  /** One timer per interval instead of per token: it checks whether the item count has changed. */
  #watchSilence(limitMs = this.#options.limits.silenceMs, silentBeforeMs = 0): void {
    this.#itemsSeen = this.#itemCount()
    this.#silentMs = silentBeforeMs
    this.#silenceLimitMs = limitMs
    this.#watch = this.#options.clock.after(this.#stepMs, this.#onLook)
  }

  #look(): void {
    if (this.#state === 'done') return
    const { clock, listener, streamed } = this.#options
    const count = this.#itemCount()
    this.#silentMs = count === this.#itemsSeen ? this.#silentMs + this.#stepMs : 0
    this.#itemsSeen = count
    if (this.#silentMs >= this.#silenceLimitMs) {
      this.#fail(deadlineError(this.#stage, this.#silenceLimitMs), 'kill')
      return
    }
    if (this.#silentMs > 0 && streamed) listener.keepAlive()
    this.#watch = clock.after(this.#stepMs, this.#onLook)
  }

  get #stepMs(): number {
    return Math.min(this.#options.limits.keepAliveMs, this.#silenceLimitMs)
  }
}
