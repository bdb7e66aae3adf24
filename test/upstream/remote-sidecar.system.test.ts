/**
 * Sidecar workers of engines whose model folder is on another machine: tokenization and detokenization are done by
 * the engine and reached through the fleet.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startBaton } from '../running-server.ts'
import type { RunningBaton } from '../running-server.ts'
import { until } from '../until.ts'
import { bodyOf, llamaText, local } from './llama-text.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

const { tokenizer } = local
/** Tokens that no other text of this test has, and a character that is split into tokens. */
const STORY = [...tokenizer.encode('Long ago, a brave 🦄 sang.', { special: false })]

const ABOUT: Readonly<Record<string, string>> = {
  '/props': 'get_props',
  '/health': 'get_health',
  '/v1/models': 'get_models',
}

function completion(request: SeenRequest): string {
  const prompt = bodyOf(request)['prompt']
  // The prompt as the text that the engine receives.
  asked.push(tokenizer.decode(prompt as number[], { skipSpecialTokens: false }))
  const events = STORY.map((id, i) => ({
    content: '',
    tokens: [id],
    stop: false,
    tokens_predicted: i + 1,
  }))
  const end = {
    content: '',
    tokens: [],
    stop: true,
    stop_type: 'eos',
    tokens_predicted: STORY.length,
  }
  return eventResponse([...events, end])
}

const asked: string[] = []
const llama = (text = llamaText): Promise<FakeServer> =>
  fakeServer((request) => {
    if (request.path === '/completion') return completion(request)
    const name = ABOUT[request.path]
    return name === undefined ? text(request) : responseOf('llama-server', name)
  })

describe('sidecar workers of a llama-server with a remote model, and a separate frontend', () => {
  const ends: (() => unknown)[] = []
  const folder = mkdtempSync(path.join(tmpdir(), 'baton-fleet-'))
  const fleet = ['--discovery-dir', folder]
  let url: string
  let workers: RunningBaton[]

  async function worker(engine: FakeServer): Promise<RunningBaton> {
    const running = await startBaton(
      ['worker', '--engine', 'llama-server', '--engine-url', engine.url, ...fleet],
      /"kind":"ready"/,
    )
    ends.push(() => running.process.kill('SIGKILL'))
    return running
  }

  async function ask(pathname: string, body: object): Promise<{ status: number; text: string }> {
    const response = await fetch(`${url}${pathname}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: response.status, text: await response.text() }
  }
  const chat = (content: string, fields: object = {}): Promise<{ status: number; text: string }> =>
    ask('/v1/chat/completions', { messages: [{ role: 'user', content }], ...fields })

  beforeAll(async () => {
    ends.push(() => rmSync(folder, { recursive: true, force: true }))
    const [a, b] = [await llama(), await llama()]
    ends.push(
      () => a.close(),
      () => b.close(),
    )
    workers = [await worker(a), await worker(b)]
    const frontend = await startBaton(['frontend', '--port', '0', ...fleet], /http:\/\/[\d.]+:\d+/)
    ends.push(() => frontend.process.kill('SIGKILL'))
    url = /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
    await until('it serves', async () => (await fetch(`${url}/ready`)).status === 200)
  })
  afterAll(async () => {
    for (const end of ends.toReversed()) await end()
  })

  it("a chat - is rendered with the engine's template, and every token of the answer becomes text", async () => {
    const { status, text } = await chat('say <|im_end|> twice')
    expect(status, text).toBe(200)
    const { choices, usage } = JSON.parse(text) as {
      choices: { message: { content: string } }[]
      usage: { completion_tokens: number }
    }
    expect(choices[0]?.message.content).toBe('Long ago, a brave 🦄 sang.')
    expect(usage.completion_tokens).toBe(STORY.length)
    expect(asked.at(-1)).toContain('<|im_start|>user\nsay <|im_end|> twice')
  })

  it('a stream - has the same text in order', async () => {
    const { text } = await chat('stream it', { stream: true })
    const pieces = [...text.matchAll(/"content":("(?:[^"\\]|\\.)*")/g)].map(
      ([, piece = '""']) => JSON.parse(piece) as string,
    )
    expect(pieces.join('')).toBe('Long ago, a brave 🦄 sang.')
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
  })

  it('a worker leaves - the other one tokenizes', async () => {
    workers[0]?.process.kill('SIGKILL')
    await until('one is left', async () => {
      const { text } = await chat('a text that nobody has tokenised before')
      return text.includes('brave')
    })
    const { status, text } = await chat('and another text that is new')
    expect(status, text).toBe(200)
  })

  it('an engine with the same model name and another tokenizer - gets no requests, and the reason is reported', async () => {
    const other = await llama((request) => {
      if (request.path !== '/tokenize') return llamaText(request)
      const { content, parse_special, with_pieces } = bodyOf(request)
      const ids = [...tokenizer.encode(String(content), { special: parse_special === true })].map(
        (id) => (id < 300 ? id : 300 + ((id + 1) % 1000)),
      )
      return jsonResponse(200, {
        tokens: ids.map((id) => (with_pieces === true ? { id, piece: null } : id)),
      })
    })
    ends.push(() => other.close())
    await worker(other)
    await until('the refusal is reported', async () => {
      const health = await (await fetch(`${url}/health`)).text()
      return health.includes("engine's tokenizer")
    })
    const before = asked.length
    expect((await chat('who answers this')).status).toBe(200)
    expect(asked.length).toBe(before + 1)
    expect(other.seen.some(({ path: route }) => route === '/completion')).toBe(false)
  })
})
