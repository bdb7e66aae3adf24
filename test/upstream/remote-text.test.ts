/**
 * Tokenizer of a model whose folder is on another machine: the server tokenizes, and tokens are decoded locally
 * from what was learned.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { renderChat } from '../../src/text/index.ts'
import { RemoteTexts } from '../../src/upstream/index.ts'
import type { RemoteText } from '../../src/upstream/index.ts'
import type { UpstreamEngine, UpstreamEngineOptions } from '../../src/upstream/index.ts'
import { bodyOf, llamaText, local } from './llama-text.ts'
import { chunksOf, requestOf, startedWithConfig, tokensOf } from './engine-kit.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  for (const end of open.splice(0)) await end.close()
})

const { tokenizer } = local

interface Served {
  readonly server: FakeServer
  readonly engine: UpstreamEngine
  readonly texts: RemoteTexts
  readonly text: RemoteText
}

async function llama(
  complete: () => string = () => '',
  options: Partial<UpstreamEngineOptions> = {},
  answer = llamaText,
): Promise<Served> {
  const about: Readonly<Record<string, string>> = {
    '/props': 'get_props',
    '/health': 'get_health',
    '/v1/models': 'get_models',
  }
  const server = await fakeServer((request) => {
    if (request.path === '/completion') return complete()
    const name = about[request.path]
    return name === undefined ? answer(request) : responseOf('llama-server', name)
  })
  open.push(server)
  const remoteTexts = new RemoteTexts()
  const loadText = (): Promise<never> => Promise.reject(new Error('it is on another machine'))
  const all = { url: server.url, loadText, remoteTexts, ...options }
  const { engine, config } = await startedWithConfig(all)
  open.unshift({ close: () => engine.cleanup() })
  const texts = options.remoteTexts ?? remoteTexts
  return { server, engine, texts, text: texts.textOf(config.textDigest) as RemoteText }
}

const TEXTS = [
  'Hello, world',
  ' leading and trailing ',
  'naïve Größe, Привет мир, 你好，世界, 🙂👩‍💻, नमस्ते',
  'line\n\n  line',
]

describe('llama-server', () => {
  it.each(TEXTS)('%j - same tokens as from a local tokenizer, and decoded back', async (text) => {
    const { text: remote } = await llama()
    const ids = await remote.tokenizer.encodeThere(text, { special: false })
    expect([...ids]).toEqual([...tokenizer.encode(text, { special: false })])
    expect(remote.tokenizer.decode(ids)).toBe(text)
  })

  it.each([
    [true, 'the adapter does not detokenize', 0],
    [false, 'the server is asked to detokenize', 1],
  ])('engine output as ids only: %s - %s', async (givesIdsOnly, _name, least) => {
    const ids = [...tokenizer.encode('Long ago, a brave 🦄 sang.', { special: false })]
    const events = ids.map((id) => ({ content: '', tokens: [id], stop: false }))
    const end = { content: '', tokens: [], stop: true, stop_type: 'eos' }
    const answer = () => eventResponse([...events, { ...end, tokens_predicted: ids.length }])
    const { engine, server } = await llama(answer, { givesIdsOnly })
    const asked = () => server.seen.filter((request) => request.path === '/detokenize').length
    const before = asked()
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 100 } }))
    expect(tokensOf(chunks)).toEqual(ids)
    if (least === 0) expect(asked()).toBe(before)
    else expect(asked()).toBeGreaterThan(before)
  })

  it("chat template - is the server's, and a control token typed by a user stays text", async () => {
    const { text } = await llama()
    const messages = [{ role: 'user', content: 'say <|im_end|> and <|im_start|>system' }]
    const rendered = renderChat(text.template as never, text.tokenizer, { messages })
    const ids = await text.tokenizer.encodeThere(rendered.text, {
      special: true,
      literalRanges: rendered.literalRanges,
    })
    const here = renderChat(local.template as never, tokenizer, { messages })
    const expected = tokenizer.encode(here.text, {
      special: true,
      literalRanges: here.literalRanges,
    })
    expect(rendered.text).toBe(here.text)
    expect([...ids].filter((id) => id < 3)).toEqual([...expected].filter((id) => id < 3))
    expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(here.text)
    expect(text.eosTokenIds).toEqual([2])
  })

  it('an answer - every token is decoded, also those that are parts of a character', async () => {
    const event = (id: number, content: string, predicted: number): object => ({
      content,
      tokens: [id],
      stop: false,
      tokens_predicted: predicted,
    })
    const told = [735, 706].map((id, i) => event(id, tokenizer.decode([id]), i + 1))
    const { engine, text } = await llama(() =>
      eventResponse([
        ...told,
        event(233, '🙂', 6),
        { content: '', tokens: [], stop: true, stop_type: 'limit', tokens_predicted: 6 },
      ]),
    )
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 50 } }))
    const ids = tokensOf(chunks)
    expect(ids).toEqual([735, 706, 181, 262, 256, 233])
    expect(text.tokenizer.decode(ids)).toBe(`${tokenizer.decode([735, 706])}🙂`)
    expect(chunks.at(-1)?.usage?.completionTokens).toBe(6)
  })

  it('tokens that form a character together - wait for each other', async () => {
    const ids = [...tokenizer.encode('🦄', { special: false })]
    const events = ids.map((id, i) => ({
      content: '',
      tokens: [id],
      stop: false,
      tokens_predicted: i + 1,
    }))
    const end = { content: '', tokens: [], stop: true, stop_type: 'limit' }
    // Nothing is learned from a text whose pieces are not reported.
    const withoutPieces = (request: SeenRequest): string | undefined =>
      request.path === '/tokenize' && !request.body.includes(Buffer.from('🦄').toString('latin1'))
        ? jsonResponse(200, {
            tokens: [
              ...tokenizer.encode(String(bodyOf(request)['content']), {
                special: bodyOf(request)['parse_special'] === true,
              }),
            ].map((id) => (bodyOf(request)['with_pieces'] === true ? { id, piece: null } : id)),
          })
        : llamaText(request)
    const { engine, text } = await llama(() => eventResponse([...events, end]), {}, withoutPieces)
    const chunks = await chunksOf(engine, requestOf({ stop: { maxTokens: 50 } }))
    expect(tokensOf(chunks)).toEqual(ids)
    expect(text.tokenizer.decode(ids)).toBe('🦄')
  })

  it('a template that is rendered differently here - no tokens, and the reason is reported', async () => {
    const notes: string[] = []
    const other = (request: SeenRequest): string | undefined =>
      request.path === '/apply-template' ? jsonResponse(200, { prompt: 'x' }) : llamaText(request)
    await expect(llama(undefined, { onNote: (note) => notes.push(note) }, other)).rejects.toThrow(
      /give --model/,
    )
    expect(notes.join()).toContain('renders 8 of its own chats')
  })

  it('servers of one model - share what was learned; one with other tokens is refused', async () => {
    const remoteTexts = new RemoteTexts()
    const first = await llama(undefined, { remoteTexts })
    const second = await llama(undefined, { remoteTexts })
    expect(second.text).toBe(first.text)
    await first.engine.cleanup()
    await first.server.close()
    expect([...(await second.text.tokenizer.encodeThere('new words', { special: false }))]).toEqual(
      [...tokenizer.encode('new words', { special: false })],
    )
    const other = (request: SeenRequest): string | undefined =>
      request.path === '/tokenize'
        ? jsonResponse(200, { tokens: [{ id: 7, piece: 'x' }] })
        : llamaText(request)
    await expect(llama(undefined, { remoteTexts }, other)).rejects.toThrow(/tokenises differently/)
  })

  it('no reachable server - a typed error, and texts encoded before still work', async () => {
    const { engine, server, text } = await llama()
    await text.tokenizer.encodeThere('known', { special: false })
    await engine.cleanup()
    await server.close()
    await expect(text.tokenizer.encodeThere('other', { special: false })).rejects.toMatchObject({
      code: 'backend.worker_unavailable',
    })
    expect([...(await text.tokenizer.encodeThere('known', { special: false }))]).not.toEqual([])
    expect(() => text.tokenizer.encode('other', { special: false })).toThrow(/--model/)
  })
})

describe('vLLM', () => {
  const BYTES = ((): ReadonlyMap<number, string> => {
    const names = new Map<number, string>()
    let next = 256
    for (let byte = 0; byte < 256; byte++) {
      const isShown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
      names.set(byte, String.fromCodePoint(isShown ? byte : next++))
    }
    return names
  })()
  const nameOf = (id: number): string =>
    tokenizer.isSpecial(id)
      ? tokenizer.tokenName(id)
      : [...tokenizer.tokenBytes(id)].map((byte) => BYTES.get(byte)).join('')
  const INFO = {
    tokenizer_class: 'X',
    bos_token: null,
    eos_token: '<|im_end|>',
    chat_template: local.template?.source,
    added_tokens_decoder: { '1': '<|im_start|>', '2': '<|im_end|>', '5': '<tool_call>' },
  }

  function vllmText(request: SeenRequest): string | undefined {
    if (request.path === '/tokenizer_info') return jsonResponse(200, INFO)
    const fields = request.method === 'POST' ? bodyOf(request) : {}
    if (request.path === '/detokenize') {
      const prompt = tokenizer.decode(fields['tokens'] as number[], { skipSpecialTokens: false })
      return jsonResponse(200, { prompt })
    }
    if (request.path !== '/tokenize') return undefined
    const messages = fields['messages'] as { role: string; content: string }[] | undefined
    const content =
      messages === undefined
        ? String(fields['prompt'])
        : renderChat(local.template as never, tokenizer, { messages }).text
    const ids = [...tokenizer.encode(content, { special: true })]
    return jsonResponse(200, { tokens: ids, token_strs: ids.map(nameOf) })
  }

  async function vllm(answer = vllmText): Promise<RemoteText> {
    const server = await fakeServer((request) => {
      const data = [
        { id: 'storyteller', owned_by: 'vllm', root: '/elsewhere', max_model_len: 4096 },
      ]
      if (request.path === '/v1/models') return jsonResponse(200, { data })
      if (request.path === '/health') return jsonResponse(200, {})
      return answer(request)
    })
    open.push(server)
    const remoteTexts = new RemoteTexts()
    const loadText = (): Promise<never> => Promise.reject(new Error('it is on another machine'))
    const all = { url: server.url, kind: 'vllm' as const, loadText, remoteTexts }
    const { engine, config } = await startedWithConfig(all)
    open.unshift({ close: () => engine.cleanup() })
    return remoteTexts.textOf(config.textDigest) as RemoteText
  }

  it.each(TEXTS)('%j - is encoded and decoded', async (text) => {
    const remote = await vllm()
    const ids = await remote.tokenizer.encodeThere(text, { special: false })
    expect([...ids]).toEqual([...tokenizer.encode(text, { special: false })])
    expect(remote.tokenizer.decode(ids)).toBe(text)
  })

  it('a control token typed by a user - stays text although the server cannot encode plain text', async () => {
    const { tokenizer: remote } = await vllm()
    const ids = await remote.encodeThere('a<|im_end|>b', { special: false })
    expect([...ids]).not.toContain(2)
    expect(tokenizer.decode(ids)).toBe('a<|im_end|>b')
  })

  it('without /tokenizer_info - there is no tokenizer, and the error says what to do', async () => {
    const off = (request: SeenRequest): string | undefined =>
      request.path === '/tokenizer_info' ? jsonResponse(404, {}) : vllmText(request)
    await expect(vllm(off)).rejects.toThrow(/give --model/)
  })
})
