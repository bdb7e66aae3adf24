/**
 * The cost of hashing a prompt: local and sequence hashes of 8,192 and 131,072 tokens, compared with
 * @node-rs/xxhash, which computes the same two hashes per block.
 *
 * npx tsx bench/block-hash.ts
 */
import { performance } from 'node:perf_hooks'
import { xxh3 } from '@node-rs/xxhash'
import { hashBlocks } from '../src/kv/index.ts'
import { readOptions } from './load/options.ts'

readOptions({})

function baseline(tokens: Uint32Array, blockTokens: number): bigint {
  const bytes = Buffer.from(tokens.buffer, tokens.byteOffset, tokens.byteLength)
  const link = Buffer.alloc(16)
  let sequence = 0n
  for (let at = 0; at + 4 * blockTokens <= bytes.length; at += 4 * blockTokens) {
    const local = xxh3.xxh64(bytes.subarray(at, at + 4 * blockTokens), 1337n)
    link.writeBigUInt64LE(sequence, 0)
    link.writeBigUInt64LE(local, 8)
    sequence = at === 0 ? local : xxh3.xxh64(link, 1337n)
  }
  return sequence
}

/** Microseconds of the fastest of many calls. */
function fastest(run: () => unknown): number {
  let best = Infinity
  for (let i = 0; i < 300; i++) {
    const begin = performance.now()
    run()
    best = Math.min(best, performance.now() - begin)
  }
  return 1000 * best
}

for (const tokenCount of [8192, 131_072]) {
  const tokens = Uint32Array.from({ length: tokenCount }, (_, i) => Math.imul(i, 2654435761) >>> 15)
  for (const blockTokens of [16, 32, 64]) {
    const own = fastest(() => hashBlocks(tokens, blockTokens))
    const other = fastest(() => baseline(tokens, blockTokens))
    const perBlock = (1000 * own * blockTokens) / tokenCount
    console.log(
      `${tokenCount} tokens in blocks of ${blockTokens}: ${own.toFixed(1)} µs (${perBlock.toFixed(0)} ns/block), ` +
        `@node-rs/xxhash ${other.toFixed(1)} µs, ratio ${(other / own).toFixed(1)}`,
    )
  }
}
