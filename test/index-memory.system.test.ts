/** Memory of the prefix index goes back to the operating system, and not only to the process. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const MAIN = fileURLToPath(new URL('index-memory.mjs', import.meta.url))
const MIB = 1 << 20

interface Memory {
  readonly before: number
  readonly full: number
  readonly empty: number
  /** What the index counts when it is empty. */
  readonly bytes: number
}

function fillAndEmpty(...args: string[]): Memory {
  const printed = execFileSync(process.execPath, ['--expose-gc', MAIN, ...args])
  return JSON.parse(printed.toString()) as Memory
}

it.each([1, 2, 4, 6, 8, 100])(
  'an index with 1.5 M blocks in chains of %i - most of its resident memory goes with them',
  (length) => {
    const { before, full, empty, bytes } = fillAndEmpty(`${length}`)
    expect(full - before).toBeGreaterThan(10 * MIB)
    expect(bytes).toBeLessThan(MIB / 16)
    // What is left is mostly code that V8 has compiled meanwhile.
    expect(empty - before).toBeLessThan(18 * MIB)
  },
)

it.each([1, 100])(
  'and if they have the hashes of engines, in chains of %i - most goes, too',
  (length) => {
    const { before, full, empty } = fillAndEmpty(`${length}`, 'named')
    expect(full - before).toBeGreaterThan(60 * MIB)
    expect(empty - before).toBeLessThan((full - before) / 2)
  },
)
