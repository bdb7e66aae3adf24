import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { configurationPage, metricsPage } from '../scripts/generated-docs.ts'

const page = (name: string): string =>
  readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8')

describe('docs that are made from the code', () => {
  it('configuration.md - is what the option table says (npx tsx scripts/write-docs.ts)', () => {
    expect(page('configuration.md')).toBe(configurationPage())
  })

  it('metrics.md - is what the registry holds (npx tsx scripts/write-docs.ts)', () => {
    expect(page('metrics.md')).toBe(metricsPage())
  })
})
