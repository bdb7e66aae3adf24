import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { MOCK_ENGINE_ARGS } from '../../simengine/arguments/mock-engine-args.ts'
import { CONFORMANCE_RULES } from './conformance-rules.ts'

const read = (path: string): string =>
  readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')

describe('docs/engines.md', () => {
  const doc = read('docs/engines.md')

  it('contains the example as it is in the code', () => {
    expect(doc).toContain(read('examples/engine-in-30-lines.ts'))
  })

  it('lists every argument of the simulated engine', () => {
    for (const name of MOCK_ENGINE_ARGS)
      expect(doc).toMatch(new RegExp(`\n\\|[^\n]*\`${name}\`[^\n]*\\|`))
  })

  it('lists every rule with its text', () => {
    for (const [rule, meaning] of Object.entries(CONFORMANCE_RULES))
      expect(doc).toContain(`| \`${rule}\` | ${meaning} |`)
  })
})
