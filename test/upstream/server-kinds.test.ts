/** Detection of the kind of server at a URL, tested with recorded answers. */
import { describe, expect, it, onTestFinished } from 'vitest'
import type { BatonError } from '../../src/base/index.ts'
import { osClock } from '../../src/os/index.ts'
import { detectKind, parseUpstreamUrl, UpstreamClient } from '../../src/upstream/index.ts'
import { until } from '../until.ts'
import { fakeServer, jsonResponse } from './transcripts.ts'
import { served } from './recorded-server.ts'

describe('kinds', () => {
  it.each([
    ['vllm', 'vllm', '0.32.0'],
    ['sglang', 'sglang', null],
    ['mlx-lm', 'openai', null],
    ['transformers-serve', 'openai', null],
  ])('%s - is detected as %s', async (engine, kind, version) => {
    const { engine: found } = await served(engine, () => undefined)
    expect(found.found).toMatchObject({ kind, version })
  })

  it.each([2, 5])(
    'a llama-server that is still loading (%i requests) - is detected once it has loaded',
    async (times) => {
      let left = times
      const loading = { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } }
      const server = await fakeServer(({ path }) => {
        if (left-- > 0) return jsonResponse(503, loading)
        if (path === '/v1/models') return jsonResponse(200, { data: [{ id: 'm' }] })
        return path === '/props' ? jsonResponse(200, { total_slots: 4 }) : undefined
      })
      onTestFinished(() => server.close())
      const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
      let kind: string | null = null
      await until('it is found', async () => {
        kind = await detectKind(client).then(
          (found) => found.kind,
          (error: BatonError) => (expect(error.row.retryable).toBe(true), null),
        )
        return kind !== null
      })
      expect(kind).toBe('llama-server')
      client.close()
    },
  )

  it('a server that answers 503 to unknown paths - is an OpenAI server', async () => {
    const server = await fakeServer(({ path }) =>
      path === '/v1/models' ? jsonResponse(200, { data: [{ id: 'm' }] }) : jsonResponse(503, {}),
    )
    onTestFinished(() => server.close())
    const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
    expect((await detectKind(client)).kind).toBe('openai')
    client.close()
  })

  it('an SGLang prefill server - reports its role', async () => {
    const { engine } = await served('sglang', () => undefined)
    expect(engine.found?.mode).toBe('agg')
  })
})
