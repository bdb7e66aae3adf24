/** Which server stands at a URL: found from what recorded ones say of themselves. */
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
  ])('%s - is found to be %s', async (engine, kind, version) => {
    const { engine: found } = await served(engine, () => undefined)
    expect(found.found).toMatchObject({ kind, version })
  })

  it.each([2, 5])(
    'a llama-server that still loads its model when it is asked (%i times) - is found to be one when it has',
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

  it('a server that answers 503 to what it does not know - is an OpenAI server', async () => {
    const server = await fakeServer(({ path }) =>
      path === '/v1/models' ? jsonResponse(200, { data: [{ id: 'm' }] }) : jsonResponse(503, {}),
    )
    onTestFinished(() => server.close())
    const client = new UpstreamClient({ url: parseUpstreamUrl(server.url), clock: osClock })
    expect((await detectKind(client)).kind).toBe('openai')
    client.close()
  })

  it('a prefill server of SGLang - says its role', async () => {
    const { engine } = await served('sglang', () => undefined)
    expect(engine.found?.mode).toBe('agg')
  })
})
