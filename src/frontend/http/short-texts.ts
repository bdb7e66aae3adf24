/**
 * A cache of short texts in bodies: keys of JSON, names of models, numbers. They are the same in nearly every
 * request, so the earlier string is found by its bytes instead of being created again.
 *
 * A pair of slots keeps the last two texts with the same hash, so the cache does not grow.
 */

export const SHORT_TEXT_BYTES = 32
const SLOTS = 1024
/** Bits for the index of a pair; the upper bits of a product are the well mixed ones. */
const PAIR_SHIFT = 23
const texts: string[] = Array.from({ length: SLOTS }, () => '')

/** One character per byte. For at most `SHORT_TEXT_BYTES` bytes. */
export function shortText(bytes: Uint8Array, start: number, end: number): string {
  let hash = end - start
  for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + (bytes[at] as number)) | 0
  const slot = (Math.imul(hash, 0x9e3779b1) >>> PAIR_SHIFT) * 2
  const known = texts[slot] as string
  if (isTextAt(known, bytes, start, end)) return known
  const other = texts[slot + 1] as string
  if (isTextAt(other, bytes, start, end)) return other
  const text = String.fromCharCode.apply(null, bytes.subarray(start, end) as unknown as number[])
  texts[slot + 1] = known
  texts[slot] = text
  return text
}

function isTextAt(text: string, bytes: Uint8Array, start: number, end: number): boolean {
  if (text.length !== end - start) return false
  for (let at = start; at < end; at++) {
    if (text.charCodeAt(at - start) !== bytes[at]) return false
  }
  return true
}
