/**
 * Encodes UTF-16 units as UTF-8, for the few characters of a word: the platform's encoder needs a string and
 * allocates.
 */
export const UNIT_BYTES_MAX = 3

/** Returns the number of bytes written; a lone surrogate becomes U+FFFD. */
export function utf8Into(
  units: Uint16Array,
  start: number,
  end: number,
  bytes: Uint8Array,
): number {
  let to = 0
  for (let at = start; at < end; at++) {
    let code = units[at]!
    if (code < 0x80) {
      bytes[to++] = code
      continue
    }
    if (code < 0x800) {
      bytes[to++] = 0xc0 | (code >> 6)
      bytes[to++] = 0x80 | (code & 0x3f)
      continue
    }
    if ((code & 0xf800) === 0xd800) {
      const low = at + 1 < end ? units[at + 1]! : 0
      if ((code & 0x400) === 0 && (low & 0xfc00) === 0xdc00) {
        const point = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff)
        bytes[to++] = 0xf0 | (point >> 18)
        bytes[to++] = 0x80 | ((point >> 12) & 0x3f)
        bytes[to++] = 0x80 | ((point >> 6) & 0x3f)
        bytes[to++] = 0x80 | (point & 0x3f)
        at += 1
        continue
      }
      code = 0xfffd
    }
    bytes[to++] = 0xe0 | (code >> 12)
    bytes[to++] = 0x80 | ((code >> 6) & 0x3f)
    bytes[to++] = 0x80 | (code & 0x3f)
  }
  return to
}
