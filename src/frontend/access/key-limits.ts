/**
 * Enforces every key's limits: requests per minute, tokens per minute and concurrent requests.
 *
 * A minute's allowance is refilled continuously, so a refused client need not wait for the end of the minute.
 * The tokens that a request may use are reserved once its prompt is known, at most a whole minute's allowance.
 * At its end the reservation is given back and the used tokens are charged. Use beyond the reservation is a debt,
 * and the next request waits until it is paid.
 *
 * Several frontends share a key's limits: each announces its own use as cumulative sums, so a lost or
 * duplicated message is corrected by the next one. Requests of a frontend that has been silent for a while no
 * longer count. Within the delay of a message two frontends may both admit the last allowed request.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { Clock, Timer } from '../../base/index.ts'
import type { ApiKey } from './api-key.ts'

const MINUTE_MS = 60_000

/** What one frontend announces about its use of a key. */
export interface KeyUseNews {
  readonly from: string
  readonly keyId: string
  readonly running: number
  /** Cumulative, since the start of that frontend. */
  readonly requests: number
  readonly tokens: number
  /** Its estimate of the allowance left for all frontends; null: there is no such limit. */
  readonly requestsLeft: number | null
  readonly tokensLeft: number | null
  /** Tokens reserved by requests that run there; absent: an older version, which reserves none. */
  readonly reserved?: number
}

/** How often a frontend announces running requests; one that is silent for three times as long is gone. */
const TELL_EVERY_MS = 1_000
const SILENCE_MS = 3 * TELL_EVERY_MS
const PEERS_MAX = 256
/** Limit for keys that only other frontends have used. */
const TOLD_KEYS_MAX = 4_096
const NAME_LENGTH_MAX = 256
/**
 * Announcements of others delay a key by at most this many minutes, because another frontend may count wrongly.
 */
const TOLD_DEBT_MINUTES = 60

/** Use of a key at another frontend. */
interface PeerUse {
  running: number
  requests: number
  tokens: number
  reserved: number
  heardMs: number
}

/** What is left of an allowance at a point in time. */
interface Allowance {
  left: number
  atMs: number
  /** The value before other frontends lowered it, since the last check. */
  before?: number
}

interface KeyUse {
  running: number
  /** Tokens reserved by requests that run here. */
  reserved: number
  /** Requests admitted by this frontend since its start. */
  requestCount: number
  tokenCount: number
  readonly peers: Map<string, PeerUse>
  requests: Allowance | null
  tokens: Allowance | null
}

export class KeyLimits {
  readonly #clock: Clock
  /** One entry per key that was used. The number is small, because keys are made by hand. */
  readonly #uses = new Map<string, KeyUse>()

  readonly #self: string
  /** Sends a message to the other frontends. */
  #tell: ((news: KeyUseNews) => void) | null = null
  #heartbeat: Timer | null = null

  constructor(clock: Clock, self = '') {
    this.#clock = clock
    this.#self = self
  }

  /** Starts to announce use to the other frontends. */
  shareWith(tell: (news: KeyUseNews) => void): void {
    this.#tell = tell
  }

  /** Announces everything, for a frontend that has just started. */
  tellAll(): void {
    for (const keyId of this.#uses.keys()) this.#tellUse(keyId)
  }

  learn(news: KeyUseNews): void {
    const { from, keyId, running, requests, tokens, requestsLeft, tokensLeft, reserved = 0 } = news
    if (from === this.#self) return
    if (!this.#uses.has(keyId) && this.#uses.size >= TOLD_KEYS_MAX && !this.#forgetToldKey()) return
    const use = this.#useOf(keyId)
    const heardMs = this.#clock.nowMs()
    const before = use.peers.get(from)
    if (before === undefined) {
      // Earlier use that is unknown here is contained in that frontend's estimate of what is left.
      lower(use, 'requests', requestsLeft, heardMs)
      lower(use, 'tokens', tokensLeft, heardMs)
      if (use.peers.size >= PEERS_MAX) this.#forgetSilent(use)
    } else {
      if (use.requests !== null) take(use.requests, requests - before.requests)
      if (use.tokens !== null) take(use.tokens, tokens - before.tokens)
    }
    use.peers.set(from, { running, requests, tokens, reserved, heardMs })
  }

  close(): void {
    this.#heartbeat?.cancel()
    this.#tell = null
  }

  /**
   * Throws `request.rate_limited`. The returned function is called once at the end with the tokens of the
   * request.
   */
  admit(key: ApiKey): (tokens: number) => void {
    const use = this.#useOf(key.id)
    const { concurrency, requestsPerMinute, tokensPerMinute } = key
    if (concurrency !== undefined && this.#runningOf(use) >= concurrency) {
      throw refusal(`${concurrency} concurrent requests`, 1000)
    }
    const requests = this.#refilled(use.requests, requestsPerMinute)
    const tokens = this.#refilled(use.tokens, tokensPerMinute)
    use.requests = requests
    use.tokens = tokens
    refuseWithout(requests, 1, requestsPerMinute, 'requests per minute')
    this.#refuseWithoutTokens(use, Number.MIN_VALUE, tokensPerMinute)
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

  /**
   * Reserves tokens for an admitted request. Throws `request.rate_limited` when they are not available. The returned
   * function gives them back; it is called once, before the used tokens are charged.
   */
  reserve(key: ApiKey, tokensMost: number): () => void {
    const { tokensPerMinute } = key
    if (tokensPerMinute === undefined) return () => undefined
    const use = this.#useOf(key.id)
    use.tokens = this.#refilled(use.tokens, tokensPerMinute)
    // A request that may use more than a minute's allowance reserves all of it instead of waiting for ever.
    const reserved = Math.min(tokensMost, tokensPerMinute)
    this.#refuseWithoutTokens(use, reserved, tokensPerMinute)
    use.reserved += reserved
    this.#tellUse(key.id)
    return () => {
      use.reserved -= reserved
    }
  }

  #refuseWithoutTokens(use: KeyUse, needed: number, perMinute: number | undefined): void {
    const reserved = this.#sumOf(use, 'reserved')
    refuseWithout(use.tokens, needed, perMinute, 'tokens per minute', reserved)
  }

  #runningOf(use: KeyUse): number {
    return this.#sumOf(use, 'running')
  }

  /** Over this frontend and those heard of recently. */
  #sumOf(use: KeyUse, what: 'running' | 'reserved'): number {
    const nowMs = this.#clock.nowMs()
    let sum = use[what]
    for (const peer of use.peers.values()) if (nowMs - peer.heardMs < SILENCE_MS) sum += peer[what]
    return sum
  }

  #tellUse(keyId: string): void {
    const use = this.#uses.get(keyId)
    if (this.#tell === null || use === undefined) return
    this.#tell({
      from: this.#self,
      keyId,
      running: use.running,
      reserved: use.reserved,
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

  /** Forgets the key that was announced first; false: all keys were also used through this frontend. */
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
      reserved: 0,
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
    // A debt of requests that were admitted here remains unchanged.
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

/** Charges use through this frontend. */
function spend(allowance: Allowance, amount: number): void {
  allowance.left -= amount
  if (allowance.before !== undefined) allowance.before -= amount
}

/** Charges use through another frontend. */
function take(allowance: Allowance, amount: number): void {
  allowance.before ??= allowance.left
  allowance.left -= Math.max(0, amount)
}

/** Parses a message of another process; null: it is not valid. */
export function parseKeyUseNews(value: unknown): KeyUseNews | null {
  if (!isRecord(value)) return null
  const { from, keyId, running, requests, tokens, requestsLeft, tokensLeft, reserved = 0 } = value
  const areTexts = [from, keyId].every(isName)
  const areAmounts = [running, requests, tokens, reserved].every(isAmount)
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
  reserved = 0,
): void {
  if (allowance === null || perMinute === undefined) return
  const free = allowance.left - reserved
  if (free >= needed) return
  const waitMs = ((needed - free) / perMinute) * MINUTE_MS
  throw refusal(`${perMinute} ${what}`, Math.max(1, Math.ceil(waitMs)))
}

function refusal(limit: string, retryAfterMs: number): BatonError {
  return new BatonError('request.rate_limited', `this key is limited to ${limit}`, {
    data: { retryAfterMs },
  })
}
