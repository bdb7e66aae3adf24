/**
 * `bytes` with space for `need` bytes, copied if it has less: doubled, at least `least`, at most `most`. Memory for data whose
 * length a peer has announced grows with what has arrived, so a forged length allocates nothing.
 */
export function grownBytes(
  bytes: Uint8Array,
  need: number,
  { least, most }: { readonly least: number; readonly most: number },
): Uint8Array {
  if (need <= bytes.length) return bytes
  const grown = new Uint8Array(Math.min(most, Math.max(need, least, 2 * bytes.length)))
  grown.set(bytes)
  return grown
}
