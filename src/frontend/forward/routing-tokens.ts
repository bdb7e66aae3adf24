/**
 * Tokens for routing a forwarded request that cannot be tokenised here: the bytes of its conversation, four per
 * token.
 *
 * Text has about four bytes per token, so lengths and loads are realistic. Two conversations with the same beginning
 * have the same first tokens and therefore the same first block hashes. Media and other embedded data (an image as
 * base64) are replaced by tokens of their hash: any difference gives other tokens, and the length of an image does not
 * dominate that of the text. The hash includes the JSON before the data and the first bytes of its file format, because
 * they are the same for every image.
 */
import { mixedBits, ownMemory } from '../../base/index.ts'
import type { Member, Span } from '../http/json-members.ts'
import type { MediaSource } from '../media/media-sources.ts'

/**
 * In the order in which templates render them, so that a change in a later field does not move earlier tokens.
 */
const CONVERSATION = [
  'tools',
  'system',
  'instructions',
  'messages',
  'prompt',
  'input',
  'query',
  'queries',
  'text_1',
  'data_1',
  'documents',
  'text_2',
  'data_2',
  'suffix',
] as const
const PLACES: ReadonlyMap<string, number> = new Map(
  CONVERSATION.map((name, place) => [name, place]),
)
const BYTES_PER_TOKEN = 4
/** About as many tokens as models use for a small image. */
const DATA_TOKENS = 256
/** Most bytes of a media part before its data that are hashed with it; a longer beginning contains text of the client. */
const PART_HEAD_BYTES_MAX = 160

export interface RoutingTokens {
  readonly tokenIds: Uint32Array
  /**
   * True when the tokens are not those of the engine, so that the engine's KV events cannot be matched with
   * them.
   */
  readonly isEstimated: boolean
}

interface FoundData {
  readonly longStrings: readonly Span[]
  readonly media: readonly MediaSource[]
}

export function routingTokens(
  bytes: Uint8Array,
  members: readonly Member[],
  found: FoundData,
): RoutingTokens {
  const ids = promptIds(bytes, members)
  if (ids !== null) return { tokenIds: ids, isEstimated: false }
  const data = dataSpans(bytes, found)
  const pieces: Uint8Array[] = []
  for (const span of conversationOf(members)) addPieces(pieces, bytes, span, data)
  return { tokenIds: tokensOf(pieces), isEstimated: true }
}

/** The spans that are hashed as a whole, in the order of the body and without overlaps. */
function dataSpans(bytes: Uint8Array, { longStrings, media }: FoundData): readonly Span[] {
  if (longStrings.length === 0 && media.length === 0) return []
  const parts = media.map(({ value: { start, end }, partStart }) => {
    const isNear = start - partStart <= PART_HEAD_BYTES_MAX
    return { start: isNear ? partStart : start, end }
  })
  const strings = longStrings.filter((span) => isData(bytes, span))
  if (parts.length === 0) return strings
  const spans: Span[] = []
  let end = 0
  for (const span of [...parts, ...strings].sort((left, right) => left.start - right.start)) {
    if (span.end <= end) continue
    spans.push({ start: Math.max(span.start, end), end: span.end })
    end = span.end
  }
  return spans
}

/** The parts of the body that the engine renders, in rendering order. */
function conversationOf(members: readonly Member[]): readonly Span[] {
  const found: (Span & { readonly place: number })[] = []
  for (const { key, valueStart: start, end } of members) {
    const place = PLACES.get(key)
    if (place === undefined) continue
    // The last member of a name counts, as in JSON parsers.
    const same = found.length === 0 ? -1 : found.findIndex((span) => span.place === place)
    found[same < 0 ? found.length : same] = { place, start, end }
  }
  return found.length < 2 ? found : found.sort((left, right) => left.place - right.place)
}

/** Tokens for bytes that are not JSON. */
export function tokensOfBytes(bytes: Uint8Array): RoutingTokens {
  const isLong = bytes.length > DATA_TOKENS * BYTES_PER_TOKEN
  return { tokenIds: tokensOf([isLong ? digested(bytes) : bytes]), isEstimated: true }
}

function tokensOf(pieces: readonly Uint8Array[]): Uint32Array {
  let length = 0
  for (const piece of pieces) length += piece.length
  // A request has at least one token.
  const tokens = new Uint32Array(Math.max(1, Math.ceil(length / BYTES_PER_TOKEN)))
  ownMemory(tokens.buffer)
  const target = new Uint8Array(tokens.buffer)
  let at = 0
  for (const piece of pieces) {
    target.set(piece, at)
    at += piece.length
  }
  return tokens
}

function addPieces(
  pieces: Uint8Array[],
  bytes: Uint8Array,
  { start, end }: Span,
  data: readonly Span[],
): void {
  let from = start
  for (const span of data) {
    if (span.start < start || span.end > end) continue
    pieces.push(bytes.subarray(from, span.start), digested(bytes.subarray(span.start, span.end)))
    from = span.end
  }
  pieces.push(bytes.subarray(from, end))
}

/** Base64 and the like: a string without separators between words. */
function isData(bytes: Uint8Array, { start }: Span): boolean {
  for (let at = start; at < start + 1024; at++) {
    const byte = bytes[at] as number
    if (byte === 0x20 || byte === 0x5c || byte >= 0x80) return false
  }
  return true
}

/** Its length and hash, spread over the bytes of `DATA_TOKENS` tokens. Every byte of the data has an effect. */
function digested(data: Uint8Array): Uint8Array {
  let first = 0x9e3779b9 ^ data.length
  let second = 0x85ebca6b
  const words = new DataView(data.buffer, data.byteOffset, data.length)
  const whole = data.length - (data.length % 4)
  const take = (word: number): void => {
    first = Math.imul(first ^ word, 0x9e3779b1)
    second = Math.imul(second + word, 0xcc9e2d51) ^ (second >>> 15)
  }
  for (let at = 0; at < whole; at += 4) take(words.getUint32(at))
  for (let at = whole; at < data.length; at++) take(words.getUint8(at))
  const tokens = new Uint32Array(DATA_TOKENS)
  for (let at = 0; at < DATA_TOKENS; at++) tokens[at] = mixedBits(first ^ mixedBits(second + at))
  return new Uint8Array(tokens.buffer)
}

/** The ids of a prompt that consists of token ids; null: it does not. */
function promptIds(bytes: Uint8Array, members: readonly Member[]): Uint32Array | null {
  const prompt = members.findLast(({ key }) => key === 'prompt')
  if (prompt === undefined || bytes[prompt.valueStart] !== OPEN_ARRAY) return null
  const ids: number[] = []
  let id = -1
  for (let at = prompt.valueStart + 1; at < prompt.end; at++) {
    const byte = bytes[at] as number
    if (byte >= ZERO && byte <= ZERO + 9) id = Math.max(id, 0) * 10 + byte - ZERO
    else if (byte === COMMA || byte === CLOSE_ARRAY) {
      if (id < 0 || id > 0xffffffff) return null
      ids.push(id)
      id = -1
    } else if (byte > 0x20) return null
  }
  return Uint32Array.from(ids)
}

const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const COMMA = 0x2c
const ZERO = 0x30
