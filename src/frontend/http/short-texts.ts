/**
 * Short pieces of bodies as text: keys of JSON, names of models, numbers. They are the same in nearly every request, so the
 * text of before is found by its bytes instead of being made again.
 *
 * A pair of slots holds the last two texts that fell into it: nothing grows.
 */

export const SHORT_TEXT_BYTES = 32
const SLOTS = 1024
/** Of a pair. The upper bits of a product are the mixed ones. */
const PAIR_SHIFT = 23
const texts: string[] = Array.from({ length: SLOTS }, () => '')

/** Bytes as characters, one each. For at most `SHORT_TEXT_BYTES`. */
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
