/** The llama-server adapter, tested with recorded answers of a real server. */
import { describe, expect, it } from 'vitest'
import type { BatonError } from '../../src/base/index.ts'
import { RequestContext, StreamValidator } from '../../src/engine/index.ts'
import { loadModelText } from '../../src/host/index.ts'
import { until } from '../until.ts'
import { chunksOf, requestOf, startedEngine, tokensOf } from './engine-kit.ts'
import { validated } from './recorded-server.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { SeenRequest } from './transcripts.ts'
import {
  ABOUT,
  END,
  bodyOf,
  closeAfterwards,
  event,
  llamaServer,
  recorded,
} from './recorded-llama-server.ts'

describe('start', () => {
  it('the server - is asked for its kind, name, context length and slots', async () => {
    const { engine } = await llamaServer(() => null)
    expect(engine.found?.kind).toBe('llama-server')
    const again = await startedEngine({ url: (await llamaServer(() => null)).server.url })
    closeAfterwards({ close: () => again.cleanup() })
  })

  it('connection refused - a typed error that names the address', async () => {
    const { server } = await llamaServer(() => null)
    await server.close()
    await expect(startedEngine({ url: server.url })).rejects.toThrow(/no engine answers at http/)
  })

  it('a server with another tokenizer - is refused before the first request', async () => {
    const wrong = llamaServer(() => jsonResponse(200, { tokens: [1, 2, 3] }), {
      modelPath: 'models/storyteller',
      loadText: loadModelText,
    })
    await expect(wrong).rejects.toThrow(/texts differently from --model/)
  })
})

describe('generate', () => {
  it('a recorded stream with logprobs - gives tokens, usage and finish reason', async () => {
    const { engine, server } = await llamaServer(recorded('completion_ids_stream'))
    const request = requestOf({ output: { logprobs: 1 } })
    const chunks = await chunksOf(engine, request)
    expect(tokensOf(chunks)).toEqual([735, 706, 20, 265])
    expect(chunks[0]?.logprobs?.[0]).toMatchObject({ tokenId: 735, top: [{ tokenId: 735 }] })
    expect(chunks.at(-1)).toMatchObject({
      finish: 'length',
      usage: { promptTokens: 27, completionTokens: 4, totalTokens: 31, cachedTokens: 26 },
    })
    const validator = new StreamValidator({ request })
    for (const chunk of chunks) validator.chunk(chunk)
    const sent = server.seen.find(({ path }) => path === '/completion')
    expect(sent?.headers['connection']).toBe('close')
    expect(bodyOf(sent)).toMatchObject({
      stream: true,
      return_tokens: true,
      temperature: 0,
      top_k: 0,
      top_p: 1,
      min_p: 0,
      n_predict: 4,
    })
  })

  it('progress events - give no tokens, whatever they contain', async () => {
    const { engine } = await llamaServer(recorded('completion_progress'))
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 2 } }))
    expect(tokensOf(chunks)).toEqual([735, 706])
  })

  it('a single document instead of a stream - is read nevertheless', async () => {
    const { engine } = await llamaServer(recorded('completion_ids'))
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 8 } }))
    expect(tokensOf(chunks)).toEqual([735, 706, 20, 265, 1327, 1292, 402, 1523])
  })

  it("the end token - ends the output and is not part of it; the server's usage is used", async () => {
    const { engine } = await llamaServer(() =>
      eventResponse([event([7]), event([2]), { ...END, stop_type: 'eos' }]),
    )
    const chunks = await chunksOf(engine, requestOf())
    expect(tokensOf(chunks)).toEqual([7])
    expect(chunks.at(-1)).toMatchObject({
      finish: 'eos',
      stopReason: 2,
      usage: { completionTokens: 1, cachedTokens: 26 },
    })
  })

  it('a stop token that the server does not know - ends the output, and the request is aborted', async () => {
    let isLeft = false
    const { engine } = await llamaServer(({ socket }) => {
      socket.on('close', () => {
        isLeft = true
      })
      socket.write(eventResponse([event([7]), event([9]), event([8]), event([8])]))
      return null
    })
    const stop = { maxTokens: 100, stopTokenIds: [9] }
    const chunks = await chunksOf(engine, requestOf({ stop }))
    expect(tokensOf(chunks)).toEqual([7])
    expect(chunks.at(-1)).toMatchObject({ finish: 'stop', stopReason: 9 })
    await until('the server request is aborted', () => isLeft)
  })

  it('events with more tokens than requested - are cut to the requested number', async () => {
    const { engine } = await llamaServer(() => eventResponse([event([1, 3, 4, 5, 6]), END]))
    const chunks = await chunksOf(engine, requestOf())
    expect(tokensOf(chunks)).toEqual([1, 3, 4, 5])
    expect(chunks.at(-1)).toMatchObject({ finish: 'length', usage: { completionTokens: 4 } })
  })

  it('with stop texts - the first token reports the cached tokens', async () => {
    const timed = event([7], { timings: { cache_n: 5 } })
    const { engine, server } = await llamaServer(() => eventResponse([timed, END]))
    const stop = { maxTokens: 4, stop: ['fox'] }
    const [first] = await chunksOf(engine, requestOf({ stop }))
    expect(first).toMatchObject({ tokenIds: [7], usage: { cachedTokens: 5 } })
    expect(bodyOf(server.seen.at(-1))).toMatchObject({ timings_per_token: true })
  })

  it('a minimum of tokens - is generated with the end token disabled, then the rest follows', async () => {
    let calls = 0
    const { engine, server } = await llamaServer(() =>
      eventResponse(
        ++calls === 1
          ? [event([7, 8]), END]
          : [event([9]), event([2]), { ...END, timings: { cache_n: 28 } }],
      ),
    )
    const stop = { maxTokens: 10, minTokens: 2, stopTokenIds: [5] }
    const request = requestOf({ stop })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(tokensOf(chunks)).toEqual([7, 8, 9])
    expect(chunks.at(-1)).toMatchObject({
      finish: 'eos',
      usage: { promptTokens: 27, completionTokens: 3, cachedTokens: 26 },
    })
    const [first, second] = server.seen.filter(({ path }) => path === '/completion').map(bodyOf)
    expect(first).toMatchObject({ n_predict: 2, ignore_eos: true, logit_bias: [[5, false]] })
    expect(second).toMatchObject({ n_predict: 8 })
    const prompt = second?.['prompt'] as number[] | undefined
    expect(prompt?.slice(-2)).toEqual([7, 8])
  })

  it('stopped while tokens wait to be read - usage counts the tokens that were read', async () => {
    const { engine } = await llamaServer(({ socket }) => {
      socket.write(eventResponse([event([7]), event([8]), event([9])]))
      return null
    })
    const request = requestOf({ stop: { maxTokens: 100 } })
    const context = new RequestContext(request.requestId)
    const validator = new StreamValidator({ request, context })
    const seen: number[] = []
    for await (const chunk of engine.generate(request, context)) {
      validator.chunk(chunk)
      seen.push(...chunk.tokenIds)
      // All three tokens arrived in one chunk.
      context.stop()
    }
    validator.end()
    expect(seen).toEqual([7])
  })

  /** The stream of a real server (b10434) for `a🙂é你b`: it reports only the last token id of each character. */
  const CHARACTERS = [
    event([73], { content: 'a', tokens_predicted: 1 }),
    event([233], { content: '🙂', tokens_predicted: 5 }),
    event([111], { content: 'é', tokens_predicted: 7 }),
    event([263], { content: '你', tokens_predicted: 10 }),
    event([74], { content: 'b', tokens_predicted: 11 }),
    event([], { stop: true, stop_type: 'limit', tokens_predicted: 11 }),
  ]
  const withText = { modelPath: 'models/storyteller', loadText: loadModelText }
  const orNoTokenizer =
    (complete: () => string) =>
    ({ path }: SeenRequest): string =>
      path === '/completion' ? complete() : jsonResponse(404, {})

  it('tokens that end within a character - are recovered, because the server does not report them', async () => {
    const complete = orNoTokenizer(() => eventResponse(CHARACTERS))
    const { engine } = await llamaServer(complete, withText)
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 20 } }))
    expect(tokensOf(chunks)).toEqual([73, 181, 262, 256, 233, 136, 111, 169, 130, 263, 74])
    expect(chunks.at(-1)?.usage?.completionTokens).toBe(11)
  })

  it('a character with more tokens than the tokenizer would use - gets other tokens with the same bytes', async () => {
    const events = [event([233], { content: ' 🙂', tokens_predicted: 5 }), END]
    const complete = orNoTokenizer(() => eventResponse(events))
    const { engine } = await llamaServer(complete, withText)
    const ids = tokensOf(await chunksOf(engine, requestOf({ stop: { maxTokens: 20 } })))
    expect(ids).toHaveLength(5)
    const { tokenizer } = await loadModelText(withText.modelPath)
    expect(tokenizer.decode(ids)).toBe(' 🙂')
  })

  it('without a tokenizer - gives only the reported tokens', async () => {
    const { engine } = await llamaServer(() => eventResponse(CHARACTERS))
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 20 } }))
    expect(tokensOf(chunks)).toEqual([73, 233, 111, 263, 74])
  })

  it("tenants - after the first cache salt Baton assigns the slots, and reuses only the tenant's own prompts", async () => {
    const { engine, server } = await llamaServer(() => eventResponse([event([7]), END]))
    const slotFor = async (salt?: string): Promise<unknown[]> => {
      const routing = salt === undefined ? {} : { cacheSalt: salt }
      await chunksOf(engine, requestOf({ routing }))
      const { cache_prompt: reuses, id_slot: slot } = bodyOf(server.seen.at(-1))
      return [slot, reuses]
    }
    expect(await slotFor()).toEqual([undefined, true])
    const [first, reuses] = await slotFor('a')
    expect(reuses).toBe(false)
    expect(await slotFor('a')).toEqual([first, true])
    // Slots without a tenant may be reused: they were filled without a salt.
    const [second] = await slotFor()
    expect(second).not.toBe(first)
    const [third, found] = await slotFor('b')
    expect([third === first, found]).toEqual([false, false])
    expect(await slotFor('a')).toEqual([first, true])
    expect(await slotFor()).toEqual([second, true])
  })
})

describe('load', () => {
  it('without --metrics - the busy slots are the load; without both the server still counts as reachable', async () => {
    let slots: string = jsonResponse(200, [{ is_processing: true }, { is_processing: false }])
    const server = await fakeServer(({ method, path }) => {
      if (path === '/metrics') return jsonResponse(501, { error: { message: 'off' } })
      if (path === '/slots') return slots
      const about = ABOUT[`${method} ${path}`]
      return about === undefined ? undefined : responseOf('llama-server', about)
    })
    const lost: unknown[] = []
    const engine = await startedEngine({
      url: server.url,
      watchMs: 5,
      onLost: (error) => lost.push(error),
    })
    closeAfterwards({ close: () => engine.cleanup() }, server)
    const running: number[] = []
    engine.observe({
      load: ({ runningRequests }) => running.push(runningRequests),
      kvEvents: () => undefined,
    })
    await until('the load is told', () => running.length > 0)
    expect(running[0]).toBe(1)
    slots = jsonResponse(501, {})
    const asked = server.seen.length
    await until('it is looked at again', () => server.seen.length > asked + 20)
    expect(lost).toEqual([])
  })
})

describe('requests that the adapter refuses itself', () => {
  it('a minimum of tokens with structured output - is refused, because a grammar cannot be continued', async () => {
    const { engine, server } = await llamaServer(() => eventResponse([event([7]), END]))
    const request = requestOf({
      stop: { maxTokens: 10, minTokens: 2 },
      sampling: { guided: { kind: 'regex', pattern: '[0-9]{12}' } },
    })
    const error = await chunksOf(engine, request).catch((thrown: unknown) => thrown as BatonError)
    expect(error).toMatchObject({
      code: 'request.unsupported_parameter',
      data: { param: 'min_tokens' },
    })
    expect(server.seen.filter(({ path }) => path === '/completion')).toEqual([])
  })

  it.each([
    [2047, null],
    [2048, 'request.invalid_argument'],
    [0xffffffff, 'request.invalid_argument'],
  ])('token id %i with a vocabulary of 2048', async (id, code) => {
    const { engine, server } = await llamaServer(() => eventResponse([event([7]), END]))
    const asked = chunksOf(engine, requestOf({ tokenIds: Uint32Array.of(1, id) }))
    const error = await asked.then(
      () => null,
      (thrown: BatonError) => thrown.code,
    )
    expect(error).toBe(code)
    expect(server.seen.some(({ path }) => path === '/completion')).toBe(code === null)
  })

  it.each([
    [4095, null],
    [4096, 'request.context_length_exceeded'],
    [0, 'request.invalid_argument'],
  ])('%i prompt tokens with a context of 4096', async (length, code) => {
    const { engine } = await llamaServer(() => eventResponse([event([7]), END]))
    const asked = chunksOf(engine, requestOf({ tokenIds: new Uint32Array(length).fill(300) }))
    expect(
      await asked.then(
        () => null,
        (thrown: BatonError) => thrown.code,
      ),
    ).toBe(code)
  })
})
