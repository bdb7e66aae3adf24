/**
 * The alphabet of byte-level BPE vocabularies (GPT-2): one printable character per byte. Printable Latin-1 bytes
 * stand for themselves; the others are mapped to U+0100 and up, in order.
 */
const BYTE_TO_CHAR: string[] = []
const CHAR_TO_BYTE = new Map<number, number>()

const isPrintable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae

let moved = 0
for (let byte = 0; byte < 256; byte++) {
  const code = isPrintable(byte) ? byte : 0x100 + moved++
  BYTE_TO_CHAR.push(String.fromCharCode(code))
  CHAR_TO_BYTE.set(code, byte)
}

export function byteChar(byte: number): string {
  return BYTE_TO_CHAR[byte] ?? ''
}

/** The bytes of a vocabulary entry, or null if it is not written in this alphabet. */
export function alphabetToBytes(text: string): Uint8Array | null {
  const bytes = new Uint8Array(text.length)
  for (let i = 0; i < text.length; i++) {
    const byte = CHAR_TO_BYTE.get(text.charCodeAt(i))
    if (byte === undefined) return null
    bytes[i] = byte
  }
  return bytes
}
