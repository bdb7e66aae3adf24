/**
 * Maximum payload length of each tag. A tag without a limit is unknown on the connection.
 *
 * The limit is checked before any byte of the payload is stored, so a peer cannot cause larger allocations.
 */
import { TAG } from './tag.ts'

/** Tag → maximum payload bytes. */
export type FrameLimits = ReadonlyMap<number, number>

const KIB = 1024
const MIB = 1024 * KIB

/** Checked by the sender, too, because a longer frame would make the peer close the whole connection. */
export const REQUEST_BYTES_MAX = 64 * MIB
export const CHUNK_BYTES_MAX = 16 * MIB
export const PEER_BYTES_MAX = 256 * KIB
export const ACTIVATION_BYTES_MAX = 64 * MIB
export const KV_CACHE_BYTES_MAX = 2 * 1024 * MIB

/**
 * Limit of a skippable frame with an unknown tag. Low, because the head of a frame in damaged data is skippable in half of
 * the cases, and the frames within its length would be lost.
 */
export const SKIPPED_BYTES_MAX = MIB

/** Limit for everything that a peer may send before the handshake is complete. */
export const STRANGER_BYTES_MAX = 64 * KIB

const STRANGER_LIMITS: FrameLimits = new Map([
  [TAG.HELLO, 60 * KIB],
  [TAG.AUTH, KIB],
  [TAG.GOODBYE, KIB],
])

/** Limits until the handshake is complete, in every dialect. */
export function strangerLimits(): FrameLimits {
  return STRANGER_LIMITS
}

const BATON_LIMITS: readonly (readonly [number, number])[] = [
  [TAG.HELLO, 60 * KIB],
  [TAG.AUTH, KIB],
  [TAG.REQUEST, REQUEST_BYTES_MAX],
  [TAG.TOKENS, MIB],
  [TAG.CHUNK, CHUNK_BYTES_MAX],
  [TAG.FINISH, CHUNK_BYTES_MAX],
  [TAG.ERROR, 256 * KIB],
  [TAG.CANCEL, 64],
  [TAG.CREDIT, MIB],
  [TAG.KV_OFFER, 16 * MIB],
  [TAG.KV_PULL, 16 * MIB],
  [TAG.KV_CHUNK, 4 * MIB],
  [TAG.KV_RELEASE, KIB],
  [TAG.KV_PULL_END, 64 * KIB],
  [TAG.KV_EVENTS, 64 * MIB],
  [TAG.KV_SNAPSHOT, 64],
  [TAG.LOAD, KIB],
  [TAG.CARD_ASK, 64],
  [TAG.CARD, MIB],
  [TAG.COMMAND_ASK, 64 * KIB],
  [TAG.COMMAND, MIB],
  [TAG.TEXT_ASK, 4 * KIB],
  [TAG.TEXT, 2 * MIB],
  [TAG.PEER, PEER_BYTES_MAX],
  [TAG.PING, 64],
  [TAG.PONG, 64],
  [TAG.DRAINING, KIB],
  [TAG.GOODBYE, KIB],
]

const BOOSTR_LIMITS: readonly (readonly [number, number])[] = [
  [TAG.ACTIVATION, ACTIVATION_BYTES_MAX],
  [TAG.PREFILL_REQUEST, 16],
  [TAG.PREFILL_DONE, 16],
  [TAG.KV_CACHE, KV_CACHE_BYTES_MAX],
  [TAG.KV_CACHE_ACK, 8],
  [TAG.DECODE_REQUEST, 16],
  [TAG.DECODE_TOKEN, 16],
  [TAG.DECODE_DONE, 16],
  [TAG.REQUEST_CANCEL, 16],
]

/** Limits of the dialect `baton`, with overrides by tag. */
export function batonLimits(overrides: Iterable<readonly [number, number]> = []): FrameLimits {
  return new Map([...BATON_LIMITS, ...overrides])
}

/** Limits of the dialect `boostr` (only tags 10 and 30–37), with overrides by tag. */
export function boostrLimits(overrides: Iterable<readonly [number, number]> = []): FrameLimits {
  return new Map([...BOOSTR_LIMITS, ...overrides])
}
