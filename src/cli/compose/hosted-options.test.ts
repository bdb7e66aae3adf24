import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../../test/free-port.ts'
import type { KvTcpServer } from '../../network/index.ts'
import { hostedOptions } from './hosted-options.ts'
import { resolveConfig } from '../options/resolve-config.ts'
import { serveConfig } from '../options/serve-config.ts'

const optionsOf = (flags: Readonly<Record<string, unknown>>) =>
  hostedOptions(serveConfig(resolveConfig({ flags, environment: {} })))

describe('hostedOptions', () => {
  it('taints and topology - are on the card in the form that the router reads', () => {
    expect(optionsOf({ taints: 'gpu=h100,fast', topology: 'zone=eu-1,rack=7' })).toMatchObject({
      taints: ['gpu=h100', 'fast'],
      topology: { zone: 'eu-1', rack: '7' },
    })
  })

  it.each([
    [{}, '127.0.0.1', 'port'],
    [{ workerAdvertise: 'far.example:7000' }, 'far.example', 'port'],
    [{ kvAdvertise: 'kv.example' }, 'kv.example', 'port'],
    [{ kvAdvertise: 'kv.example:7001', workerAdvertise: 'far.example' }, 'kv.example', 7001],
  ] as const)('%j - the address from which decode workers fetch KV', async (flags, host, told) => {
    const port = await freePort()
    const opened = await optionsOf({ ...flags, kvPort: port }).openKv?.('prefill')
    const server = opened?.ends.server as KvTcpServer | undefined
    expect([server?.host, server?.port]).toEqual([host, told === 'port' ? port : told])
    const reached = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket.destroy().destroyed))
    })
    expect(reached).toBe(true)
    await opened?.close()
  })

  it('a KV port that is in use - is reported', async () => {
    const port = await freePort()
    const taken = await optionsOf({ kvPort: port }).openKv?.('prefill')
    await expect(optionsOf({ kvPort: port }).openKv?.('prefill')).rejects.toMatchObject({
      code: 'host.address_in_use',
    })
    await taken?.close()
  })

  it('the pace of the engine - from a file of `baton profile` or from figures, with any engine', () => {
    const pace = {
      promptMs: 5,
      promptTokenMs: 0.2,
      stepMs: 9,
      stepRequestMs: 0.5,
      stepContextTokenMs: 0.001,
    }
    const folder = mkdtempSync(join(tmpdir(), 'baton-pace-'))
    const file = join(folder, 'profile.json')
    writeFileSync(file, JSON.stringify({ url: 'http://a', timing: {}, pace: { ...pace, more: 1 } }))
    for (const enginePace of [file, JSON.stringify(pace)]) {
      expect(optionsOf({ enginePace }).describe?.({ model: 'm' })).toEqual({ model: 'm', pace })
      const own = optionsOf({ enginePace, engine: './mine.js', contextLength: 100 }).describe
      expect(own?.({ model: 'm' })).toMatchObject({ contextLength: 100, pace })
    }
    expect(optionsOf({}).describe).toBeUndefined()
    const { stepMs: _, ...half } = pace
    for (const [enginePace, what] of [
      [JSON.stringify(half), '--engine-pace: stepMs is undefined: expected milliseconds from 0'],
      [JSON.stringify({ ...pace, promptMs: -1 }), '--engine-pace: promptMs is -1'],
      ['{', '--engine-pace: '],
      [join(folder, 'none.json'), 'none.json: ENOENT'],
    ])
      expect(() => optionsOf({ enginePace })).toThrow(what)
    rmSync(folder, { recursive: true })
  })

  it.each([
    [{}, undefined],
    [{ upstream: 'http://127.0.0.1:1' }, Infinity],
    [{ upstreamFile: 'upstreams.yaml' }, Infinity],
    [{ stallTimeoutSeconds: 600 }, 600_000],
    [{ upstream: 'http://127.0.0.1:1', stallTimeoutSeconds: 1 }, 1000],
  ])('%j - whether a stalled engine ends all its requests', (flags, stallTimeoutMs) => {
    expect(optionsOf(flags).limits?.stallTimeoutMs).toBe(stallTimeoutMs)
  })

  it('neither option given - neither field is on the card', () => {
    expect(Object.keys(optionsOf({}))).not.toEqual(expect.arrayContaining(['taints']))
    expect(optionsOf({}).topology).toBeUndefined()
  })
})
