/** The adapter to OpenAI servers without token ids, tested with recorded answers. */
import { describe, expect, it } from 'vitest'
import type { Chunk } from '../../src/request/index.ts'
import { until } from '../until.ts'
import { STORY, chunksOf, requestOf, startedWithConfig } from './engine-kit.ts'
import {
  MODEL,
  closeAfterwards,
  failureOf,
  recorded,
  served,
  validated,
} from './recorded-server.ts'
import { eventResponse } from './transcripts.ts'
import type { SeenRequest } from './transcripts.ts'

describe('OpenAI servers without ids', () => {
  const textOf = (chunks: readonly Chunk[]): string => chunks.map(({ text = '' }) => text).join('')
  const asOpenAi = { ...MODEL, kind: 'openai' as const, servedModelName: 'storyteller' }

  it.each([
    ['mlx-lm', 'chat_stream', 4],
    ['mlx-lm', 'chat_stream_usage', 4],
    ['transformers-serve', 'chat_stream', 4],
    ['transformers-serve', 'chat_stream_usage', 3],
  ])('%s, %s - gives the recorded text, whatever other fields are present', async (kind, name) => {
    const { engine, bodies } = await served(kind, recorded(kind, name), asOpenAi)
    const request = requestOf()
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(textOf(chunks)).toMatch(/^Long ago,/)
    expect(chunks.at(-1)).toMatchObject({ finish: 'length' })
    // The prompt is the text of the tokens, including control tokens.
    expect(bodies()[0]?.['prompt']).toMatch(/^<\|im_start\|>user\nTell me a story/)
  })

  it.each([
    ['mlx-lm', 'err_type'],
    ['mlx-lm', 'err_unknown_model'],
    ['transformers-serve', 'err_badjson'],
    ['transformers-serve', 'err_unknown_model'],
  ])("%s, %s - reports the refusal with Baton's error code", async (kind, name) => {
    const { engine } = await served(kind, recorded(kind, name), asOpenAi)
    const error = await failureOf(chunksOf(engine, requestOf()))
    expect(error.row.httpStatus).toBe(400)
  })

  it.each([
    ['min_tokens', { stop: { minTokens: 1 } }],
    ['stop_token_ids', { stop: { stopTokenIds: [7] } }],
    ['ignore_eos', { stop: { ignoreEos: true } }],
    ['top_k', { sampling: { topK: 5 } }],
  ])('%s - is refused with its name, because the server would ignore it', async (param, parts) => {
    const { engine, bodies } = await served('mlx-lm', recorded('mlx-lm', 'chat_stream'), asOpenAi)
    const error = await failureOf(chunksOf(engine, requestOf(parts)))
    expect(error.data['param']).toBe(param)
    expect(bodies()).toEqual([])
  })

  it.each([undefined, 7])('a batch size of %s - is reported to the router', async (maxNumSeqs) => {
    const { server } = await served('mlx-lm', recorded('mlx-lm', 'chat_stream'), asOpenAi)
    const options = {
      ...asOpenAi,
      url: server.url,
      ...(maxNumSeqs === undefined ? {} : { maxNumSeqs }),
    }
    const { engine, config } = await startedWithConfig(options)
    closeAfterwards({ close: () => engine.cleanup() })
    expect(config.maxNumSeqs).toBe(maxNumSeqs)
  })

  it('usage of the server - is used instead of the number of chunks', async () => {
    const { engine } = await served(
      'mlx-lm',
      () =>
        eventResponse([
          { choices: [{ text: 'one two three' }] },
          { choices: [{ text: '', finish_reason: 'stop' }] },
          { choices: [], usage: { prompt_tokens: 31, completion_tokens: 3 } },
        ]),
      asOpenAi,
    )
    const chunks = await chunksOf(engine, requestOf())
    expect(chunks.at(-1)).toMatchObject({
      finish: 'stop',
      usage: { promptTokens: 31, completionTokens: 3, totalTokens: 34 },
    })
  })

  it.each(['abort', 'aborted', 'cancelled', 'canceled', 'error', 'ERROR', 'network_error'])(
    'an answer that ends with %s - is not whole: the request may migrate',
    async (finish) => {
      const body = eventResponse([
        { choices: [{ text: 'Once' }] },
        { choices: [{ text: ' upon', finish_reason: finish }] },
        'data: [DONE]',
      ])
      const { engine } = await served('mlx-lm', () => body, asOpenAi)
      const error = await failureOf(chunksOf(engine, requestOf()))
      expect([error.code, error.row.migratable]).toEqual(['backend.engine_shutdown', true])
    },
  )

  it.each([
    ['stop', 'stop'],
    ['eos_token', 'stop'],
    ['tool_calls', 'stop'],
    ['content_filter', 'content_filter'],
    ['length', 'length'],
    ['max_tokens', 'length'],
    ['MAX_TOKENS', 'length'],
    ['model_length', 'length'],
    ['max_length', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['SAFETY', 'content_filter'],
    ['content_filtered', 'content_filter'],
    ['sensitive', 'content_filter'],
    ['refusal', 'content_filter'],
    ['', 'stop'],
  ])('an answer that ends with %s - ends with %s', async (reason, finish) => {
    const body = eventResponse([{ choices: [{ text: 'Once', finish_reason: reason }] }])
    const { engine } = await served('mlx-lm', () => body, asOpenAi)
    expect((await chunksOf(engine, requestOf())).at(-1)).toMatchObject({ finish })
  })

  it('200 with an HTML page - is no answer, and the request may migrate', async () => {
    const page = '<html><body>nginx</body></html>'
    const head = `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${page.length}`
    const { engine } = await served('mlx-lm', () => `${head}\r\n\r\n${page}`, asOpenAi)
    const error = await failureOf(chunksOf(engine, requestOf()))
    expect([error.code, error.message]).toEqual([
      'backend.worker_unavailable',
      expect.stringContaining('web page'),
    ])
  })

  it('the halves of a character in two pieces - are one character', async () => {
    const pieces = ['a\ud83e', '\udd84b', '\ud83e', '\udd84', 'c\ud83e']
    const body = eventResponse([
      ...pieces.map((text) => ({ choices: [{ text }] })),
      { choices: [{ text: '', finish_reason: 'stop' }] },
    ])
    const { engine } = await served('mlx-lm', () => body, asOpenAi)
    const request = requestOf({ stop: { maxTokens: 9 } })
    const chunks = await chunksOf(engine, request)
    validated(request, chunks)
    expect(chunks.flatMap(({ text }) => text ?? [])).toEqual(['a', '🦄b', '🦄', 'c'])
  })

  describe('a server that ignores max_tokens', () => {
    const word = (text: string, more: object = {}) => ({ choices: [{ text }], ...more })
    const answered = async (body: string) => {
      const { engine } = await served('mlx-lm', () => body, asOpenAi)
      const request = requestOf()
      const chunks = await chunksOf(engine, request)
      validated(request, chunks)
      return { text: textOf(chunks), last: chunks.at(-1) }
    }
    const cut = {
      finish: 'length',
      usage: { promptTokens: STORY.length, completionTokens: 4, totalTokens: STORY.length + 4 },
    }

    it('one token per chunk - four chunks, then the connection is closed', async () => {
      const words = ['Once', ' upon', ' a', ' time', ' there', ' was', ' more']
      const { text, last } = await answered(eventResponse(words.map((each) => word(each))))
      expect(text).toBe('Once upon a time')
      expect(last).toMatchObject(cut)
    })

    it('a token count with each chunk - is used', async () => {
      const usage = (completion: number) => ({
        usage: { prompt_tokens: STORY.length, completion_tokens: completion },
      })
      const { text, last } = await answered(
        eventResponse([word('Once', usage(3)), word(' upon', usage(6)), word(' a', usage(9))]),
      )
      expect(text).toBe('Once upon')
      expect(last).toMatchObject(cut)
    })

    it.each([
      [3, 3],
      [4, 4],
      [5, 4],
    ])('%i tokens counted before the first text - %i are reported', async (counted, reported) => {
      const { text, last } = await answered(
        eventResponse([
          { choices: [], usage: { prompt_tokens: STORY.length, completion_tokens: counted } },
          word('Once'),
          { choices: [{ text: '', finish_reason: 'length' }] },
        ]),
      )
      expect(text).toBe('Once')
      expect(last).toMatchObject({ usage: { completionTokens: reported } })
    })

    it('a server that never stops - its request is aborted', async () => {
      let hasLeft = false
      const endless = ({ socket }: SeenRequest): null => {
        socket.on('close', () => {
          hasLeft = true
        })
        socket.write(
          'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n',
        )
        const more = (): void => {
          if (hasLeft) return
          socket.write(`data: ${JSON.stringify(word(' on'))}\n\n`, () => setImmediate(more))
        }
        more()
        return null
      }
      const { engine } = await served('mlx-lm', endless, asOpenAi)
      const chunks = await chunksOf(engine, requestOf())
      expect(textOf(chunks)).toBe(' on on on on')
      expect(chunks.at(-1)).toMatchObject({ finish: 'length' })
      await until('the server request is aborted', () => hasLeft)
    })
  })
})
