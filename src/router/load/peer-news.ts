/**
 * Messages to the routers of the same model in other frontends, so that they decide alike: which worker a session is
 * bound to, and which blocks a worker without KV events will cache because a prompt was just sent to it.
 *
 * Plain JSON. Load and KV events are not included: workers send them to every frontend themselves.
 */
import { isRecord, parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'

export type PeerPool = 'prefill' | 'decode'

export interface SessionNews {
  readonly kind: 'session'
  readonly pool: PeerPool
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

export type PeerNews = SessionNews | RoutedNews

/** Longer session ids are not bound (`sessionOf`). */
const SESSION_ID_MAX = 256
/** Of longer prompts only this many leading blocks are sent. */
const BLOCKS_TOLD_MAX = 2_048

export function toldSequence(sequence: Uint32Array): readonly number[] {
  return Array.from(sequence.subarray(0, 2 * BLOCKS_TOLD_MAX))
}

/** Validates a message from another process; null if it is invalid. */
export function parsePeerNews(value: unknown): PeerNews | null {
  if (!isRecord(value) || (value['pool'] !== 'prefill' && value['pool'] !== 'decode')) return null
  const isNews =
    (value['kind'] === 'session' && isSession(value)) ||
    (value['kind'] === 'routed' && isRouted(value))
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

function isWorkerId(value: unknown): boolean {
  return typeof value === 'string' && parseWorkerId(value) === value
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

function isCount(value: unknown): value is number {
  return isAmount(value) && Number.isInteger(value)
}
