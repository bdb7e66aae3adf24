/**
 * Requests and tokens per minute and requests at a time, of every key.
 *
 * A minute's allowance comes back evenly, so that a client that was refused need not wait for the minute to end. Tokens are
 * known at the end only: they are taken then, and the next request waits until the debt is paid.
 *
 * Several frontends share a key's limits: each tells what was used through it, as sums, so that what is lost or told twice
 * is made good by what is told next. Requests that run at a frontend which has not been heard for a while run no more.
 * Within the time that a message takes, two frontends may both admit the last request that is allowed.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import type { ApiKey } from './api-key.ts'

const MINUTE_MS = 60_000

/** What one frontend says of the use of a key through it. */
export interface KeyUseNews {
  readonly from: string
  readonly keyId: string
  readonly running: number
  /** Since the frontend has started. */
  readonly requests: number
  readonly tokens: number
  /** What it takes to be left for all; null: there is no such limit. */
  readonly requestsLeft: number | null
  readonly tokensLeft: number | null
}

/** A frontend says at least so often that requests run; one that has not for three times as long is gone. */
const TELL_EVERY_MS = 1_000
const SILENCE_MS = 3 * TELL_EVERY_MS
const PEERS_MAX = 256
/** Keys of which only others have told. */
const TOLD_KEYS_MAX = 4_096
const NAME_LENGTH_MAX = 256
/** What others tell never makes a key wait for longer: one of them may have counted wrongly. */
const TOLD_DEBT_MINUTES = 60

/** Of another frontend. */
interface PeerUse {
  running: number
  requests: number
  tokens: number
  heardMs: number
}

/** What is left of an allowance, at a time. */
interface Allowance {
  left: number
  atMs: number
  /** Others have lowered it since it was last looked at; what it was before that. */
  before?: number
}

interface KeyUse {
  running: number
  /** Through this frontend, since it has started. */
  requestCount: number
  tokenCount: number
  readonly peers: Map<string, PeerUse>
  requests: Allowance | null
  tokens: Allowance | null
}

export class KeyLimits {
  readonly #clock: Clock
  /** One entry per key that was used; keys are made by hand. */
  readonly #uses = new Map<string, KeyUse>()

  readonly #self: string
  /** To the other frontends. */
  #tell: ((news: KeyUseNews) => void) | null = null
  #heartbeat: Timer | null = null

  constructor(clock: Clock, self = '') {
    this.#clock = clock
    this.#self = self
  }

  /** From now on the others are told. */
  shareWith(tell: (news: KeyUseNews) => void): void {
    this.#tell = tell
  }

  /** For a frontend that has just come. */
  tellAll(): void {
    for (const keyId of this.#uses.keys()) this.#tellUse(keyId)
  }

  learn({ from, keyId, running, requests, tokens, requestsLeft, tokensLeft }: KeyUseNews): void {
    if (from === this.#self) return
    if (!this.#uses.has(keyId) && this.#uses.size >= TOLD_KEYS_MAX && !this.#forgetToldKey()) return
    const use = this.#useOf(keyId)
    const heardMs = this.#clock.nowMs()
    const before = use.peers.get(from)
    if (before === undefined) {
      // What was used before we knew of it is in what it takes to be left.
      lower(use, 'requests', requestsLeft, heardMs)
      lower(use, 'tokens', tokensLeft, heardMs)
      if (use.peers.size >= PEERS_MAX) this.#forgetSilent(use)
    } else {
      if (use.requests !== null) take(use.requests, requests - before.requests)
      if (use.tokens !== null) take(use.tokens, tokens - before.tokens)
    }
    use.peers.set(from, { running, requests, tokens, heardMs })
  }

  close(): void {
    this.#heartbeat?.cancel()
    this.#tell = null
  }

  /** Throws `request.rate_limited`. What comes back is called once at the end, with the tokens of the request. */
  admit(key: ApiKey): (tokens: number) => void {
    const use = this.#useOf(key.id)
    const { concurrency, requestsPerMinute, tokensPerMinute } = key
    if (concurrency !== undefined && this.#runningOf(use) >= concurrency) {
      throw refusal(`${concurrency} requests at a time`, 1000)
    }
    const requests = this.#refilled(use.requests, requestsPerMinute)
    const tokens = this.#refilled(use.tokens, tokensPerMinute)
    use.requests = requests
    use.tokens = tokens
    refuseWithout(requests, 1, requestsPerMinute, 'requests per minute')
    refuseWithout(tokens, Number.MIN_VALUE, tokensPerMinute, 'tokens per minute')
    if (requests !== null) requests.left -= 1
    use.running += 1
    use.requestCount += 1
    const isLimited =
      concurrency !== undefined || requestsPerMinute !== undefined || tokensPerMinute !== undefined
    if (isLimited) this.#tellUse(key.id)
    return (used) => {
      use.running -= 1
      use.tokenCount += used
      if (use.tokens !== null) spend(use.tokens, used)
      if (isLimited) this.#tellUse(key.id)
    }
  }

  #runningOf({ running, peers }: KeyUse): number {
    const nowMs = this.#clock.nowMs()
    let sum = running
    for (const peer of peers.values()) if (nowMs - peer.heardMs < SILENCE_MS) sum += peer.running
    return sum
  }

  #tellUse(keyId: string): void {
    const use = this.#uses.get(keyId)
    if (this.#tell === null || use === undefined) return
    this.#tell({
      from: this.#self,
      keyId,
      running: use.running,
      requests: use.requestCount,
      tokens: use.tokenCount,
      requestsLeft: use.requests?.left ?? null,
      tokensLeft: use.tokens?.left ?? null,
    })
    if (use.running > 0) this.#heartbeat ??= this.#clock.after(TELL_EVERY_MS, () => this.#beat())
  }

  #beat(): void {
    this.#heartbeat = null
    for (const [keyId, { running }] of this.#uses) if (running > 0) this.#tellUse(keyId)
  }

  /** The one that was told of first; false: all were used through this frontend as well. */
  #forgetToldKey(): boolean {
    for (const [keyId, { running, requestCount }] of this.#uses) {
      if (running > 0 || requestCount > 0) continue
      return this.#uses.delete(keyId)
    }
    return false
  }

  #forgetSilent({ peers }: KeyUse): void {
    const nowMs = this.#clock.nowMs()
    for (const [from, { heardMs }] of peers)
      if (nowMs - heardMs >= SILENCE_MS || peers.size >= PEERS_MAX) peers.delete(from)
  }

  #useOf(id: string): KeyUse {
    const known = this.#uses.get(id)
    if (known !== undefined) return known
    const use: KeyUse = {
      running: 0,
      requestCount: 0,
      tokenCount: 0,
      peers: new Map(),
      requests: null,
      tokens: null,
    }
    this.#uses.set(id, use)
    return use
  }

  #refilled(before: Allowance | null, perMinute: number | undefined): Allowance | null {
    if (perMinute === undefined) return null
    const atMs = this.#clock.nowMs()
    if (before === null) return { left: perMinute, atMs }
    const back = ((atMs - before.atMs) / MINUTE_MS) * perMinute
    const most = -TOLD_DEBT_MINUTES * perMinute
    // A debt of requests that were admitted here stays what it is.
    const told =
      before.before === undefined
        ? before.left
        : Math.max(before.left, Math.min(before.before, most))
    return { left: Math.min(perMinute, told + back), atMs }
  }
}

function lower(use: KeyUse, what: 'requests' | 'tokens', left: number | null, atMs: number): void {
  if (left === null) return
  const known = use[what]
  if (known === null) use[what] = { left, atMs, before: 0 }
  else take(known, known.left - left)
}

/** Used here. */
function spend(allowance: Allowance, amount: number): void {
  allowance.left -= amount
  if (allowance.before !== undefined) allowance.before -= amount
}

/** Another frontend has used it. */
function take(allowance: Allowance, amount: number): void {
  allowance.before ??= allowance.left
  allowance.left -= Math.max(0, amount)
}

/** What came from another process; null: it is no such news. */
export function parseKeyUseNews(value: unknown): KeyUseNews | null {
  if (!isRecord(value)) return null
  const { from, keyId, running, requests, tokens, requestsLeft, tokensLeft } = value
  const areTexts = [from, keyId].every(isName)
  const areAmounts = [running, requests, tokens].every(isAmount)
  const areLeft = [requestsLeft, tokensLeft].every(
    (left) => left === null || (typeof left === 'number' && Number.isFinite(left)),
  )
  return areTexts && areAmounts && areLeft ? (value as unknown as KeyUseNews) : null
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && value.length <= NAME_LENGTH_MAX
}

function isAmount(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function refuseWithout(
  allowance: Allowance | null,
  needed: number,
  perMinute: number | undefined,
  what: string,
): void {
  if (allowance === null || perMinute === undefined || allowance.left >= needed) return
  const waitMs = ((needed - allowance.left) / perMinute) * MINUTE_MS
  throw refusal(`${perMinute} ${what}`, Math.max(1, Math.ceil(waitMs)))
}

function refusal(limit: string, retryAfterMs: number): BatonError {
  return new BatonError('request.rate_limited', `this key is limited to ${limit}`, {
    data: { retryAfterMs },
  })
}
