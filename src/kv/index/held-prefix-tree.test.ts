import { expect, it } from 'vitest'
import { HeldPrefixTree } from './held-prefix-tree.ts'

/** As many words as make a run large enough to be freed at once. */
const WORDS = 8000

function prompt(first: number, words = WORDS): Uint32Array {
  return Uint32Array.from({ length: words }, (_, at) => first + at)
}

function depthOf(tree: HeldPrefixTree, hashes: Uint32Array, slot: number): number {
  const depths = new Int32Array(4)
  tree.depths(hashes, depths)
  return depths[slot] ?? 0
}

it('long prompts, one removed - its memory is freed, and prompts with and without a common prefix stay', () => {
  const tree = new HeldPrefixTree()
  const [one, other] = [prompt(1), prompt(500_000)]
  const forked = Uint32Array.from([...one.subarray(0, 6000), ...prompt(900_000, 6000)])
  const ends = [one, other, forked].map((hashes, slot) => tree.insert(hashes, slot).node)
  const before = process.memoryUsage().arrayBuffers
  expect(tree.remove(ends[1]!, 1)).toBe(WORDS / 2)
  expect(before - process.memoryUsage().arrayBuffers).toBeGreaterThanOrEqual(4 * WORDS)
  expect(depthOf(tree, other, 1)).toBe(0)
  expect(tree.remove(ends[0]!, 0)).toBe(WORDS / 2)
  expect([depthOf(tree, one, 0), depthOf(tree, one, 2), depthOf(tree, forked, 2)]).toEqual([
    0, 3000, 6000,
  ])
  // The prompts of the callers are copies.
  expect([one.length, other.length]).toEqual([WORDS, WORDS])
  expect(tree.remove(ends[2]!, 2)).toBe(6000)
  expect([tree.isEmpty, tree.blocks]).toEqual([true, 0])
})

it('a prompt that is held twice - keeps its memory until the second one is removed', () => {
  const tree = new HeldPrefixTree()
  const hashes = prompt(7)
  const first = tree.insert(hashes, 0).node
  tree.insert(hashes, 1)
  tree.remove(first, 0)
  expect(depthOf(tree, hashes, 1)).toBe(WORDS / 2)
  tree.insert(hashes, 0)
  expect(depthOf(tree, hashes, 0)).toBe(WORDS / 2)
})
