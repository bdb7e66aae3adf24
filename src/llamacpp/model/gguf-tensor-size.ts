/**
 * The size of a tensor in bytes by its ggml type. Types that are not listed are not checked, so that a new type is
 * no error.
 */

/** ggml type → [elements per block, bytes per block]. */
const BLOCKS: ReadonlyMap<number, readonly [elements: number, bytes: number]> = new Map([
  [0, [1, 4]],
  [1, [1, 2]],
  [2, [32, 18]],
  [3, [32, 20]],
  [6, [32, 22]],
  [7, [32, 24]],
  [8, [32, 34]],
  [10, [256, 84]],
  [11, [256, 110]],
  [12, [256, 144]],
  [13, [256, 176]],
  [14, [256, 210]],
  [24, [1, 1]],
  [25, [1, 2]],
  [26, [1, 4]],
  [30, [1, 2]],
])

export function tensorBytes(type: number, dimensions: readonly number[]): number | undefined {
  const block = BLOCKS.get(type)
  if (block === undefined) return undefined
  const elements = dimensions.reduce((product, dimension) => product * dimension, 1)
  return (elements / block[0]) * block[1]
}
