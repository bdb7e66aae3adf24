/** Little-endian words of 32 bits, at any byte. */
export function readU32(bytes: Uint8Array, at: number): number {
  return (
    ((bytes[at] ?? 0) |
      ((bytes[at + 1] ?? 0) << 8) |
      ((bytes[at + 2] ?? 0) << 16) |
      ((bytes[at + 3] ?? 0) << 24)) >>>
    0
  )
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value & 255
  bytes[at + 1] = (value >>> 8) & 255
  bytes[at + 2] = (value >>> 16) & 255
  bytes[at + 3] = value >>> 24
}
