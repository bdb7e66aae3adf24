/** Random chains, one after the other: this is how hashes look to an index. */
export function makeHashes(blocks: number, seed = 0): Uint32Array {
  return new Uint32Array(2 * blocks).map((_, i) => {
    let x = Math.imul(i + seed + 1, 0x9e3779b1)
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
    return x ^ (x >>> 16)
  })
}
