/**
 * Inspects base64: whether it is valid, how many bytes it has, and its first bytes.
 */
const PADDING = 0x3d
/** Larger than all codes, so that the bitwise OR of valid codes stays below it. */
const BLANK = 128
const NONE = 255
const CODES = codes('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')

function codes(alphabet: string): Uint8Array {
  const table = new Uint8Array(256).fill(NONE)
  for (let at = 0; at < alphabet.length; at++) table[alphabet.charCodeAt(at)] = at
  // The URL-safe alphabet, and the line breaks of mail programs.
  table[0x2d] = 62
  table[0x5f] = 63
  for (const blank of [0x20, 0x09, 0x0a, 0x0d]) table[blank] = BLANK
  return table
}

interface Base64Facts {
  readonly byteLength: number
  readonly head: Uint8Array
}

const HEAD_BYTES = 512

/** Null: not base64. Padding may be missing. */
export function base64Facts(text: Uint8Array): Base64Facts | null {
  let end = text.length
  while (end > 0 && (text[end - 1] === PADDING || CODES[text[end - 1] as number] === BLANK)) end--
  const digits = digitsIn(text, end)
  if (digits === null || digits % 4 === 1) return null
  const padding = text.subarray(end).filter((unit) => unit === PADDING).length
  if (padding > 2) return null
  return { byteLength: Math.floor((digits * 3) / 4), head: headOf(text.subarray(0, end)) }
}

/** Null: there are other characters. */
function digitsIn(text: Uint8Array, end: number): number | null {
  let all = 0
  for (let at = 0; at < end; at++) all |= CODES[text[at] as number] as number
  if (all < BLANK) return end
  let digits = 0
  for (let at = 0; at < end; at++) {
    const code = CODES[text[at] as number] as number
    if (code === NONE) return null
    if (code !== BLANK) digits++
  }
  return digits
}

function headOf(text: Uint8Array): Uint8Array {
  const head: number[] = []
  let bits = 0
  let value = 0
  for (const unit of text) {
    const code = CODES[unit] as number
    if (code === BLANK) continue
    value = ((value << 6) | code) & 0xffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    head.push((value >> bits) & 0xff)
    if (head.length === HEAD_BYTES) break
  }
  return Uint8Array.from(head)
}
