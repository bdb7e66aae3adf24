/** The SGLang adapter, tested with recorded answers of a real server. */
import { describe, expect, it } from 'vitest'
import { chunksOf, requestOf, startedWithConfig, tokensOf } from './engine-kit.ts'
import {
  ABOUT,
  closeAfterwards,
  failureOf,
  recorded,
  served,
  validated,
} from './recorded-server.ts'
import { until } from '../until.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'

describe('SGLang', () => {
  it('a recorded stream with cumulative events - gives each token once', async () => {
    const { engine, bodies } = await served('sglang', recorded('sglang', 'generate_stream'))
    const request = requestOf({ stop: { maxTokens: 3 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(tokensOf(chunks)).toEqual([735, 706, 20])
    expect(chunks.at(-1)).toMatchObject({ finish: 'length', usage: { cachedTokens: 16 } })
    expect(bodies()[0]).toMatchObject({
      stream: true,
      sampling_params: { max_new_tokens: 3, top_k: -1 },
    })
    expect(bodies()[0]?.['rid']).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('a recorded answer with log-probabilities - one per token', async () => {
    const { engine } = await served('sglang', recorded('sglang', 'generate_logprob'))
    const request = requestOf({ output: { logprobs: 1 }, stop: { maxTokens: 2 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(chunks[0]?.logprobs?.map(({ tokenId }) => tokenId)).toEqual([735, 706])
  })

  it('incremental events - are supported too', async () => {
    const event = (ids: number[], count: number, finish: object | null) => ({
      output_ids: ids,
      meta_info: { prompt_tokens: 27, completion_tokens: count, finish_reason: finish },
    })
    const { engine } = await served('sglang', () =>
      eventResponse([
        event([1], 1, null),
        event([3, 4], 3, null),
        event([5], 4, { type: 'length', length: 4 }),
        'data: [DONE]',
      ]),
    )
    expect(tokensOf(await chunksOf(engine, requestOf()))).toEqual([1, 3, 4, 5])
  })

  it('a bootstrap room of more than 53 bits - keeps every digit', async () => {
    const { engine, server } = await served('sglang', recorded('sglang', 'generate_stream'))
    const room = '9223372036854775807'
    await chunksOf(engine, requestOf({ bootstrap: { host: 'p', port: 8998, room } }))
    expect(server.seen.at(-1)?.body).toContain(`"bootstrap_room":${room}`)
    expect(server.seen.at(-1)?.body).toContain('"bootstrap_host":"p","bootstrap_port":8998')
  })

  it.each(['prefill', 'decode'] as const)(
    'a %s server alone - gets no request, because it refuses requests without a bootstrap room',
    async (mode) => {
      const recording = recorded('sglang', 'generate_stream')
      const { engine, bodies } = await served('sglang', recording, { mode })
      const error = await failureOf(chunksOf(engine, requestOf()))
      expect([error.code, bodies()]).toEqual(['backend.worker_unavailable', []])
    },
  )

  it('a salt - is sent in the field that KV events name, and in the one of older versions', async () => {
    const { engine, bodies } = await served('sglang', recorded('sglang', 'generate_stream'))
    await chunksOf(engine, requestOf({ routing: { cacheSalt: 't1', loraName: 'poet' } }))
    expect(bodies()[0]).toMatchObject({ cache_salt: 't1', extra_key: 't1', lora_path: 'poet' })
    await chunksOf(engine, requestOf({ routing: { cacheSalt: '' } }))
    expect(Object.keys(bodies()[1] ?? {})).not.toContain('cache_salt')
  })

  it('adapters, also those that it loads and unloads while it runs - are reported', async () => {
    const base = { id: 'storyteller', root: 'storyteller', parent: null, max_model_len: 4096 }
    const adapter = (id: string) => ({ id, root: `/a/${id}`, parent: 'storyteller' })
    const data: object[] = [base, adapter('poet')]
    const server = await fakeServer(({ method, path }) => {
      if (path === '/v1/models') return jsonResponse(200, { data })
      const about = ABOUT['sglang']?.[`${method} ${path}`]
      return about === undefined ? undefined : responseOf('sglang', about)
    })
    const { engine, config } = await startedWithConfig({ url: server.url, watchMs: 5 })
    closeAfterwards({ close: () => engine.cleanup() }, server)
    expect(config).toMatchObject({ model: 'storyteller', loraAdapters: ['poet'] })
    expect(config.contextLength).toBe(4096)
    const told: (readonly string[])[] = []
    engine.observe({
      kvEvents: () => undefined,
      load: () => undefined,
      loraAdapters: (names) => told.push(names),
    })
    data.push(adapter('bard'))
    await until('it is told', () => told.length === 1)
    data.splice(1)
    await until('it is told again', () => told.length === 2)
    expect(told).toEqual([['poet', 'bard'], []])
  })

  it('the end token that the server names - is not part of the output', async () => {
    const { engine } = await served('sglang', () =>
      eventResponse([
        {
          output_ids: [7, 2],
          meta_info: {
            prompt_tokens: 27,
            completion_tokens: 2,
            finish_reason: { type: 'stop', matched: 2 },
          },
        },
      ]),
    )
    const chunks = await chunksOf(engine, requestOf())
    expect(tokensOf(chunks)).toEqual([7])
    expect(chunks.at(-1)).toMatchObject({ finish: 'eos', stopReason: 2 })
  })

  it('a recorded refusal of a long prompt - has the limit without paths', async () => {
    const { engine } = await served('sglang', recorded('sglang', 'err_context_ids'))
    const error = await failureOf(chunksOf(engine, requestOf()))
    expect(error.code).toBe('request.context_length_exceeded')
    expect(error.message).toContain('4096')
  })

  describe('the number of requests that one rank computes', () => {
    const scheduler = { effective_max_running_requests_per_dp: 52 }
    it.each([
      ['the recorded server: the option was not given', null, 2500],
      ['the schedulers report it', { max_running_requests: 64, internal_states: [scheduler] }, 52],
      ['only the option is reported', { max_running_requests: 64 }, 64],
      ['ranks of their own', { max_running_requests: 64, dp_size: 4 }, 64],
      [
        'ranks that share it',
        { max_running_requests: 66, dp_size: 4, enable_dp_attention: true },
        16,
      ],
      ['nothing is reported', { max_running_requests: null }, undefined],
    ])('%s', async (_, info, expected) => {
      const server = await fakeServer(({ method, path }) => {
        if (path === '/server_info' && info !== null) return jsonResponse(200, info)
        const about = ABOUT['sglang']?.[`${method} ${path}`]
        return about === undefined ? undefined : responseOf('sglang', about)
      })
      const { engine, config } = await startedWithConfig({ url: server.url })
      closeAfterwards({ close: () => engine.cleanup() }, server)
      expect(config.maxNumSeqs).toBe(expected)
    })
  })
})
