/**
 * Collects what the other frontends of the fleet have served, for readers of this frontend: their sums and
 * their last requests.
 *
 * Nothing is sent while there are no readers. A frontend with readers asks once a second (`wanted`); the others
 * then send once a second their sums and the requests that changed, as long as they are asked. Messages contain
 * the current state, so a lost or duplicated message is corrected by the next one. The decisions of a request
 * are asked for only when somebody wants to see them.
 */
import { isRecord } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import { SUM_NAMES } from './request-log.ts'
import type { LoggedRequest, RequestLog, RequestSums } from './request-log.ts'

export interface FrontendNews {
  readonly from: string
  readonly sums: RequestSums
  readonly requestsInFlight: number
  readonly requests: readonly LoggedRequest[]
}

interface OtherFrontendsOptions {
  readonly clock: Clock
  /** The name of this frontend among the others. */
  readonly self: string
  readonly log: RequestLog
  readonly requestsInFlight: () => number
  /** The decisions for a request that was routed here; null: none are known. */
  readonly decisionsOf: (requestId: string) => ToldDecisions | null
}

type ToldDecisions = Pick<DecisionsTold, 'model' | 'decisions'>

/** A question to the other frontends: who knows the decisions of this request? */
interface DecisionsAsked {
  readonly from: string
  readonly requestId: string
}

interface DecisionsTold {
  readonly to: string
  readonly requestId: string
  readonly model: string
  readonly decisions: readonly unknown[]
  /** The request as logged there; the asking frontend may not have it, because it had no readers then. */
  readonly request?: LoggedRequest
}

interface FrontendTells {
  wanted(): void
  news(news: FrontendNews): void
  asked(asked: DecisionsAsked): void
  told(told: DecisionsTold): void
}

const TELL_EVERY_MS = 1_000
/** A frontend that was silent for so long has left, or no longer asks. */
const SILENCE_MS = 4_000
/** How long the first reader waits for the other frontends. */
const FIRST_WAIT_MS = 200
const OTHERS_MAX = 256
const ANSWER_MS = 500
const QUESTIONS_MAX = 256
/** A larger message would not fit every channel. */
const PHASES_PER_NEWS = 1_000
const REQUESTS_PER_NEWS = 100

interface Other {
  readonly sums: RequestSums
  readonly requestsInFlight: number
  readonly heardMs: number
}

export class OtherFrontends {
  readonly #options: OtherFrontendsOptions
  readonly #others = new Map<string, Other>()
  readonly #questions = new Map<string, (told: ToldDecisions | null) => void>()
  #tell: FrontendTells | null = null
  #lookedMs = -Infinity
  #wantedMs = -Infinity
  #timer: Timer | null = null
  #revision = 0

  constructor(options: OtherFrontendsOptions) {
    this.#options = options
  }

  /** Starts to exchange messages with the other frontends. */
  shareWith(tell: FrontendTells): void {
    this.#tell = tell
  }

  /** Called while this frontend has readers: asks the others for their state. */
  look(): void {
    const nowMs = this.#options.clock.nowMs()
    if (this.#tell === null || nowMs - this.#lookedMs < TELL_EVERY_MS) return
    this.#lookedMs = nowMs
    this.#tell.wanted()
  }

  /** Like `look`; resolves when frontends that are asked for the first time have had time to answer. */
  async looked(): Promise<void> {
    const { clock } = this.#options
    const isFirst = clock.nowMs() - this.#lookedMs >= SILENCE_MS
    this.look()
    if (this.#tell === null || !isFirst) return
    await new Promise<void>((resolve) => {
      clock.after(FIRST_WAIT_MS, resolve)
    })
  }

  /** Another frontend has readers and asks for the state of this one. */
  wanted(): void {
    const { clock } = this.#options
    const isFirst = clock.nowMs() - this.#wantedMs >= SILENCE_MS
    this.#wantedMs = clock.nowMs()
    // A frontend that has not asked for a while may have nothing yet, so it gets all last requests.
    if (isFirst) this.#revision = 0
    if (this.#timer === null) this.#tellNews()
  }

  learn(body: unknown): void {
    const news = parseNews(body)
    if (news === null || news.from === this.#options.self) return
    const { from, sums, requestsInFlight, requests } = news
    if (!this.#others.has(from) && this.#others.size >= OTHERS_MAX) return
    const heardMs = this.#options.clock.nowMs()
    this.#others.set(from, { sums, requestsInFlight, heardMs })
    for (const request of requests) this.#options.log.learn(request)
  }

  /** The decisions for a request that another frontend routed; null: none answers within half a second. */
  async decisionsOf(requestId: string): Promise<ToldDecisions | null> {
    const { clock, self } = this.#options
    const isAsked = this.#questions.has(requestId) || this.#questions.size >= QUESTIONS_MAX
    if (this.#tell === null || isAsked) return null
    const tell = this.#tell
    return await new Promise((resolve) => {
      const finish = (told: ToldDecisions | null): void => {
        timer.cancel()
        this.#questions.delete(requestId)
        resolve(told)
      }
      const timer = clock.after(ANSWER_MS, () => finish(null))
      this.#questions.set(requestId, finish)
      tell.asked({ from: self, requestId })
    })
  }

  /** Another frontend asks for a request. */
  asked(body: unknown): void {
    if (!isRecord(body) || typeof body['requestId'] !== 'string') return
    const { from, requestId } = body
    const known = this.#options.decisionsOf(requestId)
    if (known === null || typeof from !== 'string') return
    const { model, decisions } = known
    const request = this.#options.log.find(requestId)
    const answer = { to: from, requestId, model, decisions }
    this.#tell?.told(request === null ? answer : { ...answer, request })
  }

  told(body: unknown): void {
    if (!isRecord(body) || body['to'] !== this.#options.self) return
    const { requestId, model, decisions, request } = body
    if (typeof model !== 'string' || !Array.isArray(decisions)) return
    if (isLoggedRequest(request) && request.requestId === requestId)
      this.#options.log.learn(request)
    this.#questions.get(String(requestId))?.({ model, decisions })
  }

  /** Sums over all frontends known now, this one included. */
  all(): { frontends: number; sums: RequestSums; requestsInFlight: number } {
    const { clock, log } = this.#options
    const sums = { ...log.sums }
    let requestsInFlight = this.#options.requestsInFlight()
    for (const [from, other] of this.#others) {
      if (clock.nowMs() - other.heardMs > SILENCE_MS) {
        this.#others.delete(from)
        continue
      }
      for (const name of SUM_NAMES) sums[name] += other.sums[name]
      requestsInFlight += other.requestsInFlight
    }
    return { frontends: 1 + this.#others.size, sums, requestsInFlight }
  }

  close(): void {
    this.#timer?.cancel()
    this.#tell = null
  }

  #tellNews(): void {
    const { clock, log, self } = this.#options
    this.#timer = null
    if (this.#tell === null || clock.nowMs() - this.#wantedMs > SILENCE_MS) return
    const changed = log.changedSince(this.#revision, REQUESTS_PER_NEWS, 'own')
    this.#revision = log.revision
    this.#tell.news({
      from: self,
      sums: { ...log.sums },
      requestsInFlight: this.#options.requestsInFlight(),
      requests: withinPhases(changed),
    })
    this.#timer = clock.after(TELL_EVERY_MS, () => this.#tellNews())
  }
}

/** The newest requests that fit the limit of phases. */
function withinPhases(requests: readonly LoggedRequest[]): readonly LoggedRequest[] {
  let phases = 0
  const first = requests.findLastIndex(
    (request) => (phases += request.phases.length) > PHASES_PER_NEWS,
  )
  return requests.slice(first + 1)
}

/** Null: the message is invalid. */
function parseNews(body: unknown): FrontendNews | null {
  if (!isRecord(body) || typeof body['from'] !== 'string') return null
  const { sums, requestsInFlight, requests } = body
  if (!isRecord(sums) || !Array.isArray(requests)) return null
  // Limited, so that the sum over many frontends stays a number.
  const numberOf = (value: unknown): number =>
    Number.isFinite(value) ? Math.min(Math.max(0, Number(value)), Number.MAX_SAFE_INTEGER) : 0
  return {
    from: body['from'],
    sums: Object.fromEntries(
      SUM_NAMES.map((name) => [name, numberOf(sums[name])]),
    ) as unknown as RequestSums,
    requestsInFlight: numberOf(requestsInFlight),
    requests: requests.slice(0, REQUESTS_PER_NEWS).filter(isLoggedRequest),
  }
}

function isLoggedRequest(value: unknown): value is LoggedRequest {
  return (
    isRecord(value) &&
    typeof value['requestId'] === 'string' &&
    Number.isSafeInteger(value['startedEpochMs']) &&
    Array.isArray(value['phases']) &&
    value['phases'].length <= PHASES_PER_NEWS &&
    value['phases'].every((phase) => isRecord(phase) && typeof phase['kind'] === 'string') &&
    (value['end'] === null || isRecord(value['end']))
  )
}
