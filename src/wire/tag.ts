/**
 * The frame tags and their ranges.
 *
 * 10 and 30–36 are the layout-compatible part of the dialect `boostr`, 37 is an addition to it between Baton peers;
 * from 40 up they are Baton's own. A sender that sets the highest bit of a tag allows the receiver to ignore the frame; without it an unknown tag ends the
 * connection. Numbers are never reused.
 */
export const TAG = {
  ACTIVATION: 10,
  PREFILL_REQUEST: 30,
  PREFILL_DONE: 31,
  KV_CACHE: 32,
  KV_CACHE_ACK: 33,
  DECODE_REQUEST: 34,
  DECODE_TOKEN: 35,
  DECODE_DONE: 36,
  REQUEST_CANCEL: 37,
  HELLO: 40,
  AUTH: 41,
  REQUEST: 42,
  TOKENS: 43,
  CHUNK: 44,
  FINISH: 45,
  ERROR: 46,
  CANCEL: 47,
  CREDIT: 48,
  /** Reserved: an offer is sent inside the reply of the prefill leg (`PrefillResult`). */
  KV_OFFER: 50,
  KV_PULL: 51,
  KV_CHUNK: 52,
  KV_RELEASE: 53,
  KV_PULL_END: 54,
  // 55 to 58 were used for KV in shared memory, until 0.1.
  KV_EVENTS: 60,
  KV_SNAPSHOT: 61,
  LOAD: 62,
  CARD_ASK: 63,
  CARD: 64,
  COMMAND_ASK: 65,
  COMMAND: 66,
  TEXT_ASK: 67,
  TEXT: 68,
  /** Between frontends, forwarded by a worker to which both are connected. */
  PEER: 69,
  PING: 70,
  PONG: 71,
  DRAINING: 72,
  GOODBYE: 73,
  /** The head of a record with a checksum (`frame-sums.ts`), in which frames are sent. */
  SUM: 74,
} as const

export type TagName = keyof typeof TAG

/** Set in the tag of a frame that a receiver may ignore. */
export const SKIPPABLE = 0x80000000

const NAMES = new Map<number, TagName>(
  (Object.entries(TAG) as [TagName, number][]).map(([name, tag]) => [tag, name]),
)

export function tagName(tag: number): string {
  return NAMES.get(tag) ?? `tag ${tag}`
}
