/**
 * How long a frame of each tag may be. A tag without a limit is unknown to the connection.
 *
 * The limit is looked at before a byte of the payload is kept, so a peer cannot make us allocate more.
 */
import { TAG } from './tag.ts'

/** Tag → most payload bytes. */
export type FrameLimits = ReadonlyMap<number, number>

const KIB = 1024
const MIB = 1024 * KIB

/** What a sender checks itself, since at the peer a longer frame costs the whole connection. */
export const REQUEST_BYTES_MAX = 64 * MIB
export const CHUNK_BYTES_MAX = 16 * MIB

const BATON_LIMITS: readonly (readonly [number, number])[] = [
  [TAG.HELLO, 64 * KIB],
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
  [TAG.KV_PLACED, KIB],
  [TAG.KV_TAKEN, KIB],
  [TAG.KV_ARENA, 4 * KIB],
  [TAG.KV_ARENA_READY, KIB],
  [TAG.KV_EVENTS, 64 * MIB],
  [TAG.KV_SNAPSHOT, 64],
  [TAG.LOAD, KIB],
  [TAG.PING, 64],
  [TAG.PONG, 64],
  [TAG.DRAINING, KIB],
  [TAG.GOODBYE, KIB],
]

const BOOSTR_LIMITS: readonly (readonly [number, number])[] = [
  [TAG.ACTIVATION, 64 * MIB],
  [TAG.PREFILL_REQUEST, 16],
  [TAG.PREFILL_DONE, 16],
  [TAG.KV_CACHE, 2 * 1024 * MIB],
  [TAG.KV_CACHE_ACK, 8],
  [TAG.DECODE_REQUEST, 16],
  [TAG.DECODE_TOKEN, 16],
  [TAG.DECODE_DONE, 16],
]

/** Limits of the dialect `baton`, with overrides by tag. */
export function batonLimits(overrides: Iterable<readonly [number, number]> = []): FrameLimits {
  return new Map([...BATON_LIMITS, ...overrides])
}

/** Limits of the dialect `boostr` (tags 10 and 30–36 only), with overrides by tag. */
export function boostrLimits(overrides: Iterable<readonly [number, number]> = []): FrameLimits {
  return new Map([...BOOSTR_LIMITS, ...overrides])
}
