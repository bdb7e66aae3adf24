import { afterEach, describe, expect, it } from 'vitest'
import { fakeServer } from '../../../test/upstream/transcripts.ts'
import { until } from '../../../test/until.ts'
import type { BatonError } from '../../base/index.ts'
import { osClock } from '../../os/index.ts'
import { UpstreamClient } from '../client/upstream-client.ts'
import { parseUpstreamUrl } from '../client/upstream-url.ts'
import { UpstreamWatch } from './upstream-watch.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0)) await end.close()
})

const RUN = { method: 'POST', path: '/v1/completions', body: '{}' }
const SINK = {
  onHead: () => undefined,
  onBody: () => undefined,
  onEnd: () => undefined,
  onError: () => undefined,
}

interface Silent {
  readonly client: UpstreamClient
  /** Of looks that have come to the server, which answers none. */
  looks: number
  /** The connection of the request that it works on. */
  run: { write(text: string): unknown } | null
  /** Whether it goes on with that answer at every look. */
  goesOn: boolean
  lost: BatonError | null
  watch(): void
}

async function silentServer(callsMax?: number): Promise<Silent> {
  const server = await fakeServer(({ method, socket }) => {
    if (method === 'POST') {
      silent.run = socket
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    } else {
      silent.looks += 1
      if (silent.goesOn) silent.run?.write('1\r\n.\r\n')
    }
    return null
  })
  const url = parseUpstreamUrl(server.url)
  const client = new UpstreamClient({
    url,
    clock: osClock,
    ...(callsMax === undefined ? {} : { callsMax }),
  })
  const watch = new UpstreamWatch({
    client,
    dialect: {},
    clock: osClock,
    everyMs: 1,
    deadlineMs: 200,
    onLoad: () => undefined,
    onLost: (error) => {
      silent.lost = error
    },
  })
  open.push(watch, client, server)
  const silent: Silent = {
    client,
    looks: 0,
    run: null,
    goesOn: false,
    lost: null,
    watch: () => watch.start(),
  }
  return silent
}

describe('UpstreamWatch', () => {
  it('a server that answers no look - is lost after the third', async () => {
    const silent = await silentServer()
    silent.watch()
    await until('lost', () => silent.lost !== null)
    expect(silent.looks).toBe(3)
    expect(silent.lost?.code).toBe('backend.response_timeout')
  })

  it('one that goes on with an answer to a request - is not, until that stops as well', async () => {
    const silent = await silentServer()
    silent.client.send(RUN, SINK)
    await until('the request is there', () => silent.run !== null)
    silent.goesOn = true
    silent.watch()
    await until('twice as many looks', () => silent.looks >= 7)
    expect(silent.lost).toBeNull()
    silent.goesOn = false
    await until('lost', () => silent.lost !== null)
  })

  it('looks that are not made because too much is in flight - say nothing of the server', async () => {
    const silent = await silentServer(1)
    const run = silent.client.send(RUN, SINK)
    await until('the request is there', () => silent.run !== null)
    silent.watch()
    await until('looks were refused', () => silent.client.counters.refused >= 10)
    expect(silent.looks).toBe(0)
    expect(silent.lost).toBeNull()
    run.abort()
    await until('lost', () => silent.lost !== null)
  })
})
