/** Sources of upstream addresses, and the workers that are kept for them. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { BatonError } from '../../src/base/index.ts'
import { UpstreamFleet, UpstreamSource } from '../../src/upstream/index.ts'
import type { UpstreamEvent, UpstreamSpec } from '../../src/upstream/index.ts'
import { until } from '../until.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end()
})

describe('UpstreamSource', () => {
  function folder(): string {
    const made = mkdtempSync(path.join(tmpdir(), 'baton-upstreams-'))
    open.push(() => rmSync(made, { recursive: true }))
    return made
  }

  async function watched(options: {
    given?: readonly UpstreamSpec[]
    filePath?: string
  }): Promise<{ lists: string[][]; faults: unknown[] }> {
    const lists: string[][] = []
    const faults: unknown[] = []
    const source = new UpstreamSource({
      given: options.given ?? [],
      everyMs: 10,
      onList: (list) => lists.push(list.map(({ url }) => url)),
      onFault: (error) => faults.push(error),
      ...(options.filePath === undefined ? {} : { filePath: options.filePath }),
    })
    open.push(() => source.close())
    await source.start()
    return { lists, faults }
  }

  it('a file - is read again when it changes; an invalid file changes nothing', async () => {
    const filePath = path.join(folder(), 'upstreams.yaml')
    writeFileSync(filePath, '- http://a:1\n')
    const { lists, faults } = await watched({ filePath, given: [{ url: 'http://z:1' }] })
    expect(lists).toEqual([['http://z:1', 'http://a:1']])
    writeFileSync(filePath, 'upstreams: [http://a:1, {url: http://b:2, mode: prefill}]\n')
    await until('the change is seen', () => lists.length === 2)
    expect(lists[1]).toEqual(['http://z:1', 'http://a:1', 'http://b:2'])
    writeFileSync(filePath, '- {ulr: x}\n')
    await until('the fault is told', () => faults.length > 0)
    expect(lists.length).toBe(2)
  })

  it.skipIf(process.platform === 'win32')(
    'a file replaced by a pipe without a writer - is reported without waiting for one',
    async () => {
      const filePath = path.join(folder(), 'upstreams.yaml')
      writeFileSync(filePath, '- http://a:1\n')
      const { faults } = await watched({ filePath })
      rmSync(filePath)
      execFileSync('mkfifo', [filePath])
      await until('the fault is told', () => faults.length > 0)
      expect(String(faults[0])).toContain('nothing was written for 0 s')
    },
  )

  it('a file that does not exist at startup - is an error', async () => {
    await expect(watched({ filePath: path.join(folder(), 'none') })).rejects.toThrow(/ENOENT/)
  })

  it('a host name - is resolved to its addresses', async () => {
    const { lists } = await watched({ given: [{ url: 'http://localhost:8000', isDns: true }] })
    expect(lists[0]?.length).toBeGreaterThan(0)
    for (const url of lists[0] ?? []) expect(url).toMatch(/^http:\/\/(127\.0\.0\.1|\[::1\]):8000$/)
  })

  it('an unknown host name - is reported as a fault without other effects', async () => {
    const { lists, faults } = await watched({ given: [{ url: 'http://a.invalid:1', isDns: true }] })
    expect(lists).toEqual([[]])
    expect(faults.length).toBe(1)
  })
})

describe('UpstreamFleet', () => {
  function fleet(start: (url: string, nth: number) => void): {
    fleet: UpstreamFleet
    events: string[]
    stopped: string[]
    lose: (url: string) => void
    /** Upstreams with a request in flight. */
    busy: Set<string>
  } {
    const events: string[] = []
    const stopped: string[] = []
    const busy = new Set<string>()
    const losses = new Map<string, (error: BatonError) => void>()
    let nth = 0
    const made = new UpstreamFleet({
      retryMs: 5,
      onEvent: (event: UpstreamEvent) => events.push(`${event.kind} ${event.spec.url}`),
      start: async ({ url }, onLost) => {
        await Promise.resolve()
        start(url, ++nth)
        losses.set(url, onLost)
        return {
          leave: async () => void events.push(`left ${url}`),
          rejoin: async () => void events.push(`rejoined ${url}`),
          idle: () => until('idle', () => !busy.has(url)),
          stop: async () => {
            busy.delete(url)
            stopped.push(url)
          },
        }
      },
    })
    open.push(() => made.close())
    return {
      fleet: made,
      events,
      stopped,
      busy,
      lose: (url) => losses.get(url)?.(new BatonError('transport.disconnected', 'gone')),
    }
  }

  it('upstreams - are started when added and stopped when removed', async () => {
    const { fleet: kept, events, stopped } = fleet(() => undefined)
    kept.setList([{ url: 'a' }, { url: 'b' }])
    await kept.tried()
    expect(kept.counts).toEqual({ named: 2, up: 2 })
    kept.setList([{ url: 'b' }, { url: 'c' }])
    await kept.tried()
    await until('a is gone', () => events.includes('removed a'))
    expect(stopped).toEqual(['a'])
    expect(kept.counts).toEqual({ named: 2, up: 2 })
  })

  /** One server, `a`, that has a request in flight and was removed from the source. */
  async function leaving() {
    const { fleet: kept, ...rest } = fleet(() => undefined)
    kept.setList([{ url: 'a' }])
    await kept.tried()
    rest.busy.add('a')
    kept.setList([])
    await until('it has left', () => rest.events.includes('left a'))
    return { kept, ...rest }
  }

  it('a removed upstream with a request in flight - gets no new requests, and is stopped after it', async () => {
    const { kept, events, stopped, busy } = await leaving()
    kept.setList([])
    expect(kept.counts).toEqual({ named: 0, up: 0 })
    expect(stopped).toEqual([])
    busy.delete('a')
    await until('it is gone', () => events.includes('removed a'))
    expect(stopped).toEqual(['a'])
    expect(events).toEqual(['up a', 'left a', 'removed a'])
  })

  it('added again while leaving - it stays, and is stopped when removed for good', async () => {
    const { kept, events, stopped, busy } = await leaving()
    kept.setList([{ url: 'a' }])
    expect(kept.counts).toEqual({ named: 1, up: 1 })
    busy.delete('a')
    kept.setList([])
    await until('it is gone', () => events.includes('removed a'))
    expect(events).toEqual(['up a', 'left a', 'rejoined a', 'left a', 'removed a'])
    expect(stopped).toEqual(['a'])
  })

  it('lost while leaving - it is stopped, and started again when added again', async () => {
    const { kept, events, stopped, lose } = await leaving()
    lose('a')
    await until('it is gone', () => events.includes('removed a'))
    expect(stopped.length).toBeGreaterThan(0)
    kept.setList([{ url: 'a' }])
    await until(
      'the upstream has restarted',
      () => events.filter((event) => event === 'up a').length === 2,
    )
  })

  it('shutdown - does not wait for requests', async () => {
    const { fleet: kept, stopped, busy } = fleet(() => undefined)
    kept.setList([{ url: 'a' }, { url: 'b' }])
    await kept.tried()
    busy.add('a')
    busy.add('b')
    kept.setList([{ url: 'b' }])
    await kept.close()
    expect(new Set(stopped)).toEqual(new Set(['a', 'b']))
  })

  it('an unreachable upstream - is reported once and retried until it is reachable', async () => {
    const { fleet: kept, events } = fleet((_url, nth) => {
      if (nth < 4) throw new BatonError('transport.cannot_connect', 'not there')
    })
    kept.setList([{ url: 'a' }])
    await kept.tried()
    expect(kept.counts.up).toBe(0)
    await until('it is up', () => kept.counts.up === 1)
    expect(events).toEqual(['not-up a', 'up a'])
  })

  it('a lost upstream - is stopped and started again', async () => {
    const { fleet: kept, events, stopped, lose } = fleet(() => undefined)
    kept.setList([{ url: 'a' }])
    await kept.tried()
    lose('a')
    await until(
      'the upstream has restarted',
      () => events.filter((event) => event === 'up a').length === 2,
    )
    expect(events).toEqual(['up a', 'lost a', 'up a'])
    expect(stopped).toEqual(['a'])
  })
})
