import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { configurationPage, metricsPage } from '../scripts/generated-docs.ts'

const page = (name: string): string =>
  readFileSync(new URL(`../docs/${name}`, import.meta.url), 'utf8')

describe('generated docs', () => {
  it('configuration.md - matches the option table (npx tsx scripts/write-docs.ts)', () => {
    expect(page('configuration.md')).toBe(configurationPage())
  })

  it('metrics.md - matches the registry (npx tsx scripts/write-docs.ts)', () => {
    expect(page('metrics.md')).toBe(metricsPage())
  })
})
