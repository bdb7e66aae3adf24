/**
 * What a random read of memory costs in this process now: the floor for whatever looks up one block.
 *
 * `dependent`: each address depends on the previous value, as for an event that is applied before the next one is known.
 * `independent`: the processor overlaps the reads, as for a batch whose positions are all known.
 */
import { performance } from 'node:perf_hooks'
import { median } from '../load/summary.ts'
import { createDraw } from './draw.ts'

/** One cache line in words. */
const LINE = 16
const READS = 1 << 18
/** Reads that are timed together; the median shows the machine where other processes disturb the mean. */
const BATCH = 64

export interface MemoryFloor {
  readonly dependent: number
  readonly independent: number
}

function readDependent(words: Int32Array, lines: Int32Array, from: number): number {
  let last = 0
  for (let i = from; i < from + BATCH; i++) last = words[(lines[i] as number) + last] as number
  return last
}

function readIndependent(words: Int32Array, lines: Int32Array, from: number): number {
  let sum = 0
  for (let i = from; i < from + BATCH; i++) sum ^= words[lines[i] as number] as number
  return sum
}

/** Nanoseconds of a random read in an array of this many bytes. */
export function measureFloor(bytes: number): MemoryFloor {
  const count = Math.max(1, Math.floor(bytes / (4 * LINE)))
  const words = new Int32Array(LINE * count)
  // Written, or the operating system would back all pages by the same one. The values are zero, which the compiler
  // does not know.
  for (let i = 0; i < words.length; i += LINE) words[i] = 1
  for (let i = 0; i < words.length; i += LINE) words[i] = 0
  const draw = createDraw()
  const lines = Int32Array.from({ length: READS }, () => LINE * Math.floor(draw() * count))
  const timed = (read: typeof readDependent): number => {
    const ns: number[] = []
    for (let round = 0; round < 4; round++) {
      ns.length = 0
      for (let from = 0; from < READS; from += BATCH) {
        const begin = performance.now()
        const value = read(words, lines, from)
        ns.push((1e6 * (performance.now() - begin)) / BATCH)
        if (value !== 0) throw new Error('a word of the floor has changed')
      }
    }
    return median(ns)
  }
  return { dependent: timed(readDependent), independent: timed(readIndependent) }
}
