/**
 * Messages to the routers of the same model in other frontends, so that they decide alike: which worker a session is
 * bound to, which blocks a worker without KV events will cache because a prompt was just sent to it, and which prompts
 * were sent and are not computed yet.
 *
 * Plain JSON. KV events are not included: workers send them to every frontend themselves. Load reports come from workers
 * as well, but later than these messages.
 */
import { isRecord, parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'

export type PeerPool = 'prefill' | 'decode'

export interface SessionNews {
  readonly kind: 'session'
  readonly pool: PeerPool
  /** Preceded by its tenant, if there is one. */
  readonly sessionId: string
  /** Null: the session is no longer bound. */
  readonly target: { readonly workerId: WorkerId; readonly dpRank: number | null } | null
  readonly idleMs: number
}

export interface RoutedNews {
  readonly kind: 'routed'
  readonly pool: PeerPool
  readonly workerId: WorkerId
  readonly dpRank: number
  /** Sequence hashes of the prompt's blocks, (low, high) pairs of u32. */
  readonly sequence: readonly number[]
}

/** A prompt was sent to a rank; or it is computed there (`runs`), or its request ended before that. */
export interface PromptNews {
  readonly kind: 'sent' | 'computed'
  readonly pool: PeerPool
  readonly workerId: WorkerId
  readonly dpRank: number
  readonly promptTokens: number
  /** Prompt tokens that the rank has to compute. */
  readonly uncachedTokens: number
  readonly runs: boolean
}

export type PeerNews = SessionNews | RoutedNews | PromptNews

/** A session id and its tenant; longer ones are not shared. */
const SESSION_ID_MAX = 512
/** Of longer prompts only this many leading blocks are sent. */
const BLOCKS_TOLD_MAX = 2_048

/** No prompt is longer. */
const TOKENS_MAX = 2 ** 31

export function toldSequence(sequence: Uint32Array): readonly number[] {
  return Array.from(sequence.subarray(0, 2 * BLOCKS_TOLD_MAX))
}

/** Validates a message from another process; null if it is invalid. */
export function parsePeerNews(value: unknown): PeerNews | null {
  if (!isRecord(value) || (value['pool'] !== 'prefill' && value['pool'] !== 'decode')) return null
  const isNews =
    (value['kind'] === 'session' && isSession(value)) ||
    (value['kind'] === 'routed' && isRouted(value)) ||
    ((value['kind'] === 'sent' || value['kind'] === 'computed') && isPrompt(value))
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

function isPrompt(value: Record<string, unknown>): boolean {
  const { workerId, dpRank, promptTokens, uncachedTokens, runs } = value
  if (!isWorkerId(workerId) || !isCount(dpRank) || typeof runs !== 'boolean') return false
  if (!isCount(promptTokens) || promptTokens > TOKENS_MAX) return false
  return isCount(uncachedTokens) && uncachedTokens <= promptTokens
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
