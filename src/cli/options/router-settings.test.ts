import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { completeRouterConfig } from '../../router/index.ts'
import { resolveConfig } from './resolve-config.ts'
import { routerSettings } from './router-settings.ts'

function fileWith(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-router-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'router.yaml')
  writeFileSync(path, content)
  return path
}

const settings = (
  flags: Readonly<Record<string, unknown>>,
  environment: Readonly<Record<string, string>> = {},
) => routerSettings(resolveConfig({ flags, environment }))

describe('routerSettings', () => {
  it('without a file - options with a flag, and the defaults', () => {
    const { router, rows } = settings({ routerMode: 'random', routerKvEvents: 'false' })
    expect(router).toMatchObject({ mode: 'random', useKvEvents: false, overlapScoreCredit: 1 })
    expect(rows.find(({ path }) => path === 'prefillLoadScale')).toEqual({
      path: 'prefillLoadScale',
      value: 16,
      from: 'default',
    })
  })

  it("index bytes - from the machine's memory, a flag, or the file; too small a value is refused", () => {
    const bytesOf = (flags: Readonly<Record<string, unknown>>): number =>
      settings(flags).router.indexBytes ?? 0
    expect(bytesOf({})).toBeGreaterThanOrEqual(64 * 1024 ** 2)
    expect(bytesOf({})).toBeLessThanOrEqual(2 * 1024 ** 3)
    expect(bytesOf({ routerIndexBytes: '1MiB' })).toBe(1024 ** 2)
    expect(bytesOf({ routerConfig: fileWith('indexBytes: 3000000\n') })).toBe(3_000_000)
    expect(() => settings({ routerIndexBytes: '1048575' })).toThrow('at least 1MiB')
  })

  it('precedence - flag and variable before the file, the file before the default, and the source is reported', () => {
    const routerConfig = fileWith(
      'mode: random\ntemperature: 0.5\noverlapScoreCredit: 2\nsession: {ttlSeconds: 60}\n',
    )
    const { router, options, rows } = settings(
      { routerConfig, routerMode: 'kv' },
      { BATON_OVERLAP_WEIGHT: '3' },
    )
    expect(router).toMatchObject({ mode: 'kv', temperature: 0.5, overlapScoreCredit: 3 })
    const from = (key: string): unknown => {
      const found = options.find(({ option }) => option.key === key)
      return [found?.value, found?.writtenAs]
    }
    expect(from('routerMode')).toEqual(['kv', '--router-mode'])
    expect(from('routerTemperature')).toEqual([0.5, `${routerConfig}: temperature`])
    expect(from('overlapWeight')).toEqual([3, 'BATON_OVERLAP_WEIGHT'])
    expect(rows.find(({ path }) => path === 'session.ttlSeconds')).toMatchObject({
      value: 60,
      from: `${routerConfig}: session.ttlSeconds`,
    })
  })

  it('JSON, and the names of Dynamo - are accepted too', () => {
    const routerConfig = fileWith('{"router_temperature": 0.25, "use_kv_events": false}')
    expect(settings({ routerConfig }).router).toMatchObject({
      temperature: 0.25,
      useKvEvents: false,
    })
  })

  it.each([
    ['queueThreshold: lots', "'queueThreshold' must be null or a number"],
    ['policyClasses: [{name: a, quantum: 0}]', "'policyClasses[0].quantum' must be"],
    ['busy: {blocks: 1}', "'busy.blocks' is not known"],
    ['enforceDisaggregation: true\ndisaggregation: false', "'enforceDisaggregation' must be"],
    ['a: [1', 'at line'],
    ['- 1', 'names and values'],
  ])('%j - is refused in one line with the file and the path', (content, message) => {
    const routerConfig = fileWith(content)
    const read = (): unknown => settings({ routerConfig })
    expect(read).toThrow(message)
    expect(read).toThrow(routerConfig)
    expect(read).toThrow(/^[^\n]+$/)
  })

  it('a missing file - is refused with the name of the flag', () => {
    expect(() => settings({ routerConfig: 'none.yaml' })).toThrow('--router-config: the file')
  })

  it('the example file - is valid, and sets what it says', () => {
    const example = fileURLToPath(new URL('../../../examples/router.yaml', import.meta.url))
    const config = completeRouterConfig(settings({ routerConfig: example }).router)
    expect(config.policyClasses.map(({ name }) => name)).toEqual(['default', 'batch'])
    expect(config.conditional.enabled).toBe(true)
  })
})
