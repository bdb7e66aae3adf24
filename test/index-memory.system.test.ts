/** Memory of the prefix index goes back to the operating system, and not only to the process. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const MAIN = fileURLToPath(new URL('index-memory.mjs', import.meta.url))
const MIB = 1 << 20

it.each([1, 2, 4, 6, 8, 100])(
  'an index with 1.5 M blocks in chains of %i - most of its resident memory goes with them',
  (length) => {
    const printed = execFileSync(process.execPath, ['--expose-gc', MAIN, `${length}`])
    const { before, full, empty, bytes } = JSON.parse(printed.toString()) as Record<string, number>
    expect((full as number) - (before as number)).toBeGreaterThan(10 * MIB)
    expect(bytes).toBeLessThan(MIB / 16)
    // What is left is mostly code that V8 has compiled meanwhile.
    expect((empty as number) - (before as number)).toBeLessThan(18 * MIB)
  },
)
