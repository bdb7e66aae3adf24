/**
 * Messages to the routers of the same model in other frontends, so that they decide alike: which worker a session is
 * bound to, which blocks a worker without KV events will cache because a prompt was just sent to it, which requests were
 * sent and have not ended, how fast they were served, and how many requests arrive and end.
 *
 * Plain JSON. KV events are not included: workers send them to every frontend themselves. Load reports come from workers
 * as well, but later than these messages.
 */
import { isRecord, parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'

export type PeerPool = 'prefill' | 'decode'

interface SessionNews {
  readonly kind: 'session'
  readonly pool: PeerPool
  /** Preceded by its tenant, if there is one. */
  readonly sessionId: string
  /** Null: the session is no longer bound. */
  readonly target: { readonly workerId: WorkerId; readonly dpRank: number | null } | null
  readonly idleMs: number
}

interface RoutedNews {
  readonly kind: 'routed'
  readonly pool: PeerPool
  readonly workerId: WorkerId
  readonly dpRank: number
  /** Sequence hashes of the prompt's blocks, (low, high) pairs of u32. */
  readonly sequence: readonly number[]
}

/** A first token after `elapsedMs`, with the predicted times that passed before it; see `RankRates.firstToken`. */
export interface FirstTokenSeen {
  readonly elapsedMs: number
  readonly waitMs: number
  readonly stepMs: number
}

/** The tokens of a completed request; see `RankRates.ended` and `RankRates.paceSeen`. */
export interface ServedSeen {
  readonly requests: number
  readonly contextTokens: number
  readonly outputTokens: number
  readonly stepMs: number
  readonly itlMs: number
}

/** A prompt was sent to a rank; a request is running there, because its prompt is computed; or it ended. */
export interface PromptNews {
  readonly kind: 'sent' | 'running' | 'ended'
  readonly pool: PeerPool
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly promptTokens: number
  /** Prompt tokens that the rank has to compute. */
  readonly uncachedTokens: number
  /** If the time to the first token shows the speed of the rank; with `running` or `ended`. */
  readonly first?: FirstTokenSeen
  /** With `ended`, if its tokens show the speed of the rank. */
  readonly served?: ServedSeen
}

/** How many requests have arrived, were sent and have ended at a frontend since its last message; see `FlowMeter`. */
interface FlowNews {
  readonly kind: 'flow'
  readonly pool: PeerPool
  /** A number that the frontend has chosen at random. */
  readonly from: number
  readonly arrived: number
  readonly gone: number
  readonly ended: number
}

export type PeerNews = SessionNews | RoutedNews | PromptNews | FlowNews

/** A session id and its tenant; longer ones are not shared. */
const SESSION_ID_MAX = 512
/** Of longer prompts only this many leading blocks are sent. */
const BLOCKS_TOLD_MAX = 2_048

/** No prompt is longer. */
const TOKENS_MAX = 2 ** 31
const PROMPT_KINDS: ReadonlySet<unknown> = new Set(['sent', 'running', 'ended'])
const FIRST_KEYS = ['elapsedMs', 'waitMs', 'stepMs']
const SERVED_KEYS = ['requests', 'contextTokens', 'outputTokens', 'stepMs', 'itlMs']
const AMOUNT_MAX = 2 ** 40

export function toldSequence(sequence: Uint32Array): readonly number[] {
  return Array.from(sequence.subarray(0, 2 * BLOCKS_TOLD_MAX))
}

/** Validates a message from another process; null if it is invalid. */
export function parsePeerNews(value: unknown): PeerNews | null {
  if (!isRecord(value) || (value['pool'] !== 'prefill' && value['pool'] !== 'decode')) return null
  const isNews =
    (value['kind'] === 'session' && isSession(value)) ||
    (value['kind'] === 'routed' && isRouted(value)) ||
    (value['kind'] === 'flow' && isFlow(value)) ||
    (PROMPT_KINDS.has(value['kind']) && isPrompt(value))
  return isNews ? (value as unknown as PeerNews) : null
}

function isSession({ sessionId, target, idleMs }: Record<string, unknown>): boolean {
  if (typeof sessionId !== 'string' || sessionId.length > SESSION_ID_MAX) return false
  if (!isAmount(idleMs)) return false
  if (target === null) return true
  if (!isRecord(target) || !isWorkerId(target['workerId'])) return false
  return target['dpRank'] === null || isCount(target['dpRank'])
}

function isRouted({ workerId, dpRank, sequence }: Record<string, unknown>): boolean {
  if (!isWorkerId(workerId) || !isCount(dpRank) || !Array.isArray(sequence)) return false
  if (sequence.length % 2 !== 0 || sequence.length > 2 * BLOCKS_TOLD_MAX) return false
  return sequence.every((word) => isCount(word) && word <= 0xffff_ffff)
}

function isFlow({ from, arrived, gone, ended }: Record<string, unknown>): boolean {
  return isCount(from) && isCount(arrived) && isCount(gone) && isCount(ended)
}

function isPrompt(value: Record<string, unknown>): boolean {
  const { workerId, dpRank, promptTokens, uncachedTokens, first, served } = value
  if (!isWorkerId(workerId) || !isCount(dpRank)) return false
  if (first !== undefined && !hasAmounts(first, FIRST_KEYS)) return false
  if (served !== undefined && !hasAmounts(served, SERVED_KEYS)) return false
  if (!isCount(promptTokens) || promptTokens > TOKENS_MAX) return false
  return isCount(uncachedTokens) && uncachedTokens <= promptTokens
}

function hasAmounts(value: unknown, keys: readonly string[]): boolean {
  return isRecord(value) && keys.every((key) => isAmount(value[key]) && value[key] < AMOUNT_MAX)
}

function isWorkerId(value: unknown): boolean {
  return typeof value === 'string' && parseWorkerId(value) === value
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function isCount(value: unknown): value is number {
  return isAmount(value) && Number.isInteger(value)
}
