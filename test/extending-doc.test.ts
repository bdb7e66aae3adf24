import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const page = readFileSync(join(ROOT, 'docs/extending.md'), 'utf8')
const diffs = [...page.matchAll(/```diff\n--- (\S+)\n([\s\S]*?)```/g)].map(
  ([, path = '', lines = '']) => ({ path, lines: lines.trimEnd().split('\n') }),
)

describe('docs/extending.md', () => {
  it('diffs - exist for the tasks that need one', () => {
    expect(new Set(diffs.map(({ path }) => path)).size).toBeGreaterThanOrEqual(6)
  })

  it('every task - changes at most two files', () => {
    for (const task of page.split(/^## /m)) {
      const paths = new Set([...task.matchAll(/```diff\n--- (\S+)/g)].map(([, path]) => path))
      expect(paths.size, task.slice(0, 40)).toBeLessThanOrEqual(2)
    }
  })

  it.each(diffs)('the diff of $path - applies to the current file', ({ path, lines }) => {
    const before = lines.filter((line) => !line.startsWith('+')).map((line) => line.slice(1))
    expect(readFileSync(join(ROOT, path), 'utf8')).toContain(before.join('\n'))
    expect(lines.some((line) => line.startsWith('+'))).toBe(true)
  })
})
