import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { devNull, tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { OPTION_TABLE, flagOf, variableOf } from './option-table.ts'
import { resolveConfig } from './resolve-config.ts'
import type { ConfigInput } from './resolve-config.ts'
import { serveConfig } from './serve-config.ts'
import { workerArgs, workerEnvironment } from './worker-args.ts'

function fileWith(yaml: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-config-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'baton.yaml')
  writeFileSync(path, yaml)
  return path
}

const resolve = (input: Partial<ConfigInput> = {}) =>
  resolveConfig({ flags: {}, environment: {}, ...input })
const portOf = (input: Partial<ConfigInput>) =>
  resolve(input).find(({ option }) => option.key === 'port')

describe('configuration', () => {
  it('precedence - flag, then environment, then file, then default', () => {
    const file = fileWith('port: 1003\n')
    const environment = { BATON_PORT: '1002' }
    expect(portOf({ file, environment, flags: { port: '1001' } })).toMatchObject({
      value: 1001,
      source: 'flag',
      writtenAs: '--port',
    })
    expect(portOf({ file, environment })).toMatchObject({ value: 1002, source: 'environment' })
    expect(portOf({ file })).toMatchObject({ value: 1003, source: 'file' })
    expect(portOf({})).toMatchObject({ value: 8000, source: 'default' })
  })

  it.each([
    ['port', 'abc', '--port'],
    ['port', '65536', '--port'],
    ['port', '-1', 'from 0 to 65535'],
    ['port', '1.5', '--port'],
    ['port', '', '--port'],
    ['port', true, '--port'],
    ['overlapWeight', '-0.1', 'from 0 to 1000'],
    ['inProcess', 'perhaps', 'true or false'],
    ['model', '', 'is invalid: expected a text that is not empty'],
    ['engine', 'tensorrt', 'llamacpp, sim'],
    ['mode', 'encode', 'is invalid: expected one of: agg, prefill, decode, auto'],
    ['taints', 'fast,', 'words separated by commas'],
    ['taints', 'fast,dynamo.topology/zone=a', '--topology'],
    ['topology', 'eu-1', 'domain=value'],
    ['topology', 'zone=eu=1', 'domain=value'],
    ['kvStoreBytes', 'lots', '--kv-store-bytes'],
    ['logLevel', 'loud', 'silent, error'],
  ])('value - %s %s is refused in one line', (key, value, named) => {
    const attempt = () => resolve({ flags: { [key]: value } })
    expect(attempt).toThrow(named)
    expect(attempt).toThrow(/^[^\n]+$/)
  })

  it('every option - its error says which text it expects', () => {
    for (const { key, schema } of OPTION_TABLE) {
      const issues = schema.safeParse('\u0000no value').error?.issues ?? []
      expect([key, issues.filter(({ message }) => message.startsWith('Invalid'))]).toEqual([
        key,
        [],
      ])
    }
  })

  it('port - both ends of the range are accepted', () => {
    expect(portOf({ flags: { port: '0' } })?.value).toBe(0)
    expect(portOf({ flags: { port: '65535' } })?.value).toBe(65_535)
  })

  it.each([
    ['512MiB', 536_870_912],
    ['2GB', 2e9],
    ['1024', 1024],
    ['1.5k', 1536],
  ])('size - %s is %d bytes', (written, bytes) => {
    const found = resolve({ flags: { kvStoreBytes: written } }).find(
      ({ option }) => option.key === 'kvStoreBytes',
    )
    expect(found?.value).toBe(bytes)
  })

  it('service variables that Kubernetes sets in a pod for Services named baton, baton-admin, baton-frontend - are ignored', () => {
    const environment = {
      BATON_PORT: 'tcp://10.96.0.12:8000',
      BATON_SERVICE_HOST: '10.96.0.12',
      BATON_SERVICE_PORT: '8000',
      BATON_SERVICE_PORT_HTTP: '8000',
      BATON_PORT_8000_TCP: 'tcp://10.96.0.12:8000',
      BATON_PORT_8000_TCP_PROTO: 'tcp',
      BATON_PORT_8000_TCP_PORT: '8000',
      BATON_PORT_8000_TCP_ADDR: '10.96.0.12',
      BATON_ADMIN_PORT: 'udp://10.96.0.13:9000',
      BATON_FRONTEND_PORT: 'tcp://10.96.0.14:80',
      BATON_FRONTEND_SERVICE_HOST: '10.96.0.14',
      BATON_HOST: '0.0.0.0',
    }
    const valueOf = (key: string, variables: Record<string, string> = environment) =>
      resolve({ environment: variables }).find(({ option }) => option.key === key)?.value
    expect(valueOf('port')).toBe(8000)
    expect(valueOf('adminPort')).toBeNull()
    expect(valueOf('host')).toBe('0.0.0.0')
    expect(valueOf('port', { BATON_PORT: '9001' })).toBe(9001)
  })

  it('unknown - a key of the file and a BATON_ variable are refused by name', () => {
    expect(() => resolve({ file: fileWith('prot: 1\n') })).toThrow("unknown option 'prot'")
    expect(() => resolve({ environment: { BATON_PROT: '1' } })).toThrow('BATON_PROT')
  })

  it('file - a key without a value counts as not given', () => {
    expect(portOf({ file: fileWith('port:\n') })).toMatchObject({ value: 8000, source: 'default' })
  })

  it('file - a missing file or invalid YAML is refused with its name', () => {
    expect(() => resolve({ file: 'no-such-file.yaml' })).toThrow('no-such-file.yaml')
    expect(() => resolve({ file: fileWith('a: [1\n') })).toThrow('YAML')
    expect(() => resolve({ file: fileWith('- 1\n') })).toThrow("'option: value'")
  })

  it('table - every option has its own flag and variable', () => {
    expect(new Set(OPTION_TABLE.map(flagOf)).size).toBe(OPTION_TABLE.length)
    expect(new Set(OPTION_TABLE.map(variableOf)).size).toBe(OPTION_TABLE.length)
  })
})

describe('topology', () => {
  const topology = (flags: Record<string, unknown>) => {
    const { prefill, decode, aggregated } = serveConfig(resolve({ flags }))
    return { prefill, decode, aggregated }
  }

  it('default - one prefill and one decode worker', () => {
    expect(topology({})).toEqual({ prefill: 1, decode: 1, aggregated: 0 })
  })

  it('aggregated - replaces prefill and decode', () => {
    expect(topology({ aggregated: '2' })).toEqual({ prefill: 0, decode: 0, aggregated: 2 })
  })

  it('contradictions - are refused with the names that the user wrote', () => {
    expect(() => topology({ aggregated: '2', prefill: '1' })).toThrow(/--aggregated and --prefill/)
    expect(() => topology({ prefill: '1', decode: '0' })).toThrow('--decode')
    expect(() => topology({ prefill: '0', decode: '0' })).toThrow('no workers')
  })

  it('decode workers only - are allowed, because a decode worker can compute prompts itself', () => {
    expect(topology({ prefill: '0', decode: '2' })).toEqual({
      prefill: 0,
      decode: 2,
      aggregated: 0,
    })
  })
})

describe('options without effect are refused', () => {
  const config = (flags: Record<string, unknown>, environment: Record<string, string> = {}) =>
    serveConfig(resolve({ flags, environment }))

  it.each([
    [{ gpuLayers: '9' }, /--gpu-layers .* --gpu/],
    [{ inProcess: true, discoveryDir: 'x' }, /--in-process and --discovery-dir/],
    [{ inProcess: true, discovery: 'file:x' }, /--in-process and --discovery /],
    [{ discovery: 'file:x', discoveryDir: 'x' }, /--discovery and --discovery-dir/],
    [{ inProcess: true, frontends: '2' }, /--in-process and --frontends/],
    [{ discovery: 'memory' }, /--discovery memory .* --in-process/],
    [{ discovery: '/srv/fleet' }, /--discovery: .* expected memory, file:/],
    [{ enforceDisagg: true, aggregated: '1' }, /--enforce-disagg and --aggregated/],
    [{ enforceDisagg: true, prefill: '0' }, /--enforce-disagg and --prefill/],
    [{ engine: 'sim', threads: '2' }, /--threads .* --engine sim/],
    [{ simSpeedup: '2' }, /--sim-speedup .* --engine llamacpp/],
  ])('%j - is refused in one line', (flags, named) => {
    expect(() => config(flags)).toThrow(named)
    expect(() => config(flags)).toThrow(/^[^\n]+$/)
  })

  it('an option together with the one that it needs, or given otherwise than as a flag - is accepted', () => {
    expect(config({ gpuLayers: '9', gpu: 'auto' }).gpuLayers).toBe(9)
    expect(config({ engine: 'sim', simSpeedup: '2' }).sim?.speedupRatio).toBe(2)
    expect(config({ engine: 'sim' }, { BATON_THREADS: '2' }).threads).toBe(2)
    const fleet = { enforceDisagg: true, aggregated: '1', discoveryDir: 'shared' }
    expect(config(fleet).aggregated).toBe(1)
  })
})

describe('arguments of a worker of baton serve', () => {
  it('arguments - contain the effective values and no file, variable or secret', () => {
    const file = fileWith('servedModelName: mine\nport: 9000\n')
    const environment = { BATON_THREADS: '2', BATON_WIRE_SECRET: 'hush' }
    const given = resolve({ file, environment, flags: { kvFailure: 'fail', decode: '2' } })
    expect(workerArgs(given, 'prefill').join(' ')).toBe(
      `worker --mode prefill --grace-seconds 0 --config ${devNull} ` +
        '--served-model-name mine --threads 2 --kv-failure fail',
    )
    expect(
      workerEnvironment(
        { ...environment, HOME: '/' },
        { discovery: 'file:/fleet', wireSecret: 'hush' },
      ),
    ).toEqual({
      BATON_DISCOVERY: 'file:/fleet',
      BATON_THREADS: undefined,
      BATON_WIRE_SECRET: 'hush',
    })
  })
})
