/** A server whose `/metrics` cannot be read serves all the same. */
import { describe, expect, it } from 'vitest'
import { osClock } from '../../src/os/index.ts'
import { workerIdOf } from '../../src/base/index.ts'
import { ForwardEngine, UpstreamClient, parseUpstreamUrl } from '../../src/upstream/index.ts'
import { chunksOf, requestOf, startedWithConfig, tokensOf } from './engine-kit.ts'
import { ABOUT, closeAfterwards } from './recorded-server.ts'
import { fakeServer, responseOf } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const CASES: readonly [string, (request: SeenRequest) => string | null | undefined, RegExp][] = [
  ['does not exist', () => undefined, /reports none there/],
  [
    'closes the connection',
    ({ socket }) => {
      socket.destroy()
      return null
    },
    /closed the connection/,
  ],
]

async function server(metrics: (request: SeenRequest) => string | null | undefined) {
  const started: FakeServer = await fakeServer((request) => {
    if (request.path === '/metrics') return metrics(request)
    const about = ABOUT['vllm']?.[`${request.method} ${request.path}`]
    if (about !== undefined) return responseOf('vllm', about)
    return request.path === '/v1/completions' ? responseOf('vllm', 'cmpl_stream') : undefined
  })
  return started
}

describe('a vLLM whose /metrics', () => {
  it.each(CASES)(
    '%s - serves, and the operator is told what is not known',
    async (_name, metrics, why) => {
      const started = await server(metrics)
      const { url } = started
      const notes: string[] = []
      const { engine, config } = await startedWithConfig({
        url,
        onNote: (note) => notes.push(note),
      })
      closeAfterwards({ close: () => engine.cleanup() }, started)
      expect(config.model).toBe('storyteller')
      expect(tokensOf(await chunksOf(engine, requestOf({ stop: { maxTokens: 3 } })))).toEqual([
        735, 706, 20,
      ])
      expect(notes.filter((note) => note.includes('block size'))).toEqual([
        expect.stringMatching(why),
      ])
    },
  )

  it.each(CASES)('%s, in forward mode - the same', async (_name, metrics, why) => {
    const started = await server(metrics)
    const { url } = started
    const notes: string[] = []
    const client = new UpstreamClient({ url: parseUpstreamUrl(url), clock: osClock })
    const engine = new ForwardEngine({
      client,
      clock: osClock,
      mode: 'agg',
      onLost: () => undefined,
      onNote: (note) => notes.push(note),
    })
    closeAfterwards({ close: () => engine.cleanup() }, started)
    expect((await engine.start(workerIdOf(1n))).model).toBe('storyteller')
    expect(notes.filter((note) => note.includes('block size'))).toEqual([
      expect.stringMatching(why),
    ])
  })
})
