/**
 * Length of the bytes without an incomplete UTF-8 character at their end. Bytes that can never become a character
 * count as complete.
 */
export function completeLength(bytes: Uint8Array): number {
  const { length } = bytes
  for (let back = 1; back <= 3 && back <= length; back++) {
    const byte = bytes[length - back]!
    if (byte < 0x80) return length
    if (byte < 0xc0) continue
    const isUnfinished = sequenceLength(byte) > back && secondFits(byte, bytes[length - back + 1])
    return isUnfinished ? length - back : length
  }
  return length
}

function sequenceLength(lead: number): number {
  if (lead >= 0xc2 && lead <= 0xdf) return 2
  if (lead >= 0xe0 && lead <= 0xef) return 3
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 1
}

/** Overlong forms, surrogates and values above U+10FFFF are invalid already at the second byte. */
function secondFits(lead: number, second: number | undefined): boolean {
  if (second === undefined) return true
  if (lead === 0xe0) return second >= 0xa0
  if (lead === 0xed) return second <= 0x9f
  if (lead === 0xf0) return second >= 0x90
  return lead === 0xf4 ? second <= 0x8f : true
}
