/**
 * Servers that were started with a chat template of their own (`--chat-template-file`): chats are rendered with it,
 * and two templates under one model name do not both serve.
 */
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { loadModelText } from '../../src/host/index.ts'
import { ChatTemplate, renderChat } from '../../src/text/index.ts'
import { RemoteTexts } from '../../src/upstream/index.ts'
import type { UpstreamEngineOptions } from '../../src/upstream/index.ts'
import { startGateway } from '../forward/gateway-kit.ts'
import { startedWithConfig } from './engine-kit.ts'
import { bodyOf, llamaText, local } from './llama-text.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { FakeServer } from './transcripts.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end()
})

const MODEL = fileURLToPath(new URL('../../models/storyteller/', import.meta.url))
const OWN =
  "{% for m in messages %}{{ '<|im_start|>' + m['role'] + ' says ' + m['content'] + '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ 'ANSWER ' }}{% endif %}"
const CHAT = { messages: [{ role: 'user', content: 'Hello' }] }
const { tokenizer } = local

function idsOf(source: string): readonly number[] {
  const { text, literalRanges } = renderChat(new ChatTemplate(source), tokenizer, CHAT)
  return [...tokenizer.encode(text, { special: true, literalRanges })]
}

/** A llama-server whose model can be read here. */
async function llama(source: string): Promise<FakeServer> {
  const props = { total_slots: 4, model_alias: 'm', model_path: MODEL, chat_template: source }
  const template = new ChatTemplate(source)
  const server = await fakeServer((request) => {
    switch (request.path) {
      case '/props':
        return jsonResponse(200, props)
      case '/v1/models':
        return jsonResponse(200, { data: [{ id: 'm', meta: { n_vocab: tokenizer.vocabSize } }] })
      case '/health':
        return responseOf('llama-server', 'get_health')
      case '/apply-template': {
        const messages = bodyOf(request)['messages'] as never
        return jsonResponse(200, { prompt: renderChat(template, tokenizer, { messages }).text })
      }
      case '/completion': {
        const end = { content: '', tokens: [], stop: true, stop_type: 'eos' }
        return eventResponse([{ content: 'x', tokens: [735], stop: false }, end])
      }
      default:
        return llamaText(request)
    }
  })
  open.push(() => server.close())
  return server
}

async function chat(url: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(CHAT),
  })
  await response.text()
  return response.status
}

const promptsOf = ({ seen }: FakeServer): unknown[] =>
  seen.filter(({ path }) => path === '/completion').map((request) => bodyOf(request)['prompt'])

interface Health {
  readonly warnings: readonly string[]
  readonly models: readonly { readonly workers: readonly { readonly upstream: string }[] }[]
}

describe('a llama-server with a chat template of its own', () => {
  it('the model can be read here - chats are rendered with the template of the server', async () => {
    const server = await llama(OWN)
    const gateway = await startGateway([server], { forward: false })
    open.push(() => gateway.close())
    expect(await chat(gateway.url)).toBe(200)
    expect(promptsOf(server)).toEqual([idsOf(OWN)])
  })

  it.each([false, true])(
    'another one has the template of the model (forwarding: %s) - only one serves, and /health names the field',
    async (forward) => {
      const servers = [await llama(OWN), await llama(local.template?.source ?? '')]
      const gateway = await startGateway(servers, { forward })
      open.push(() => gateway.close())
      const health = (await (await fetch(`${gateway.url}/health`)).json()) as Health
      const [first] = servers
      const serving = health.models.flatMap(({ workers }) =>
        workers.map(({ upstream }) => upstream),
      )
      expect(serving).toHaveLength(1)
      expect(health.warnings.join()).toMatch(/chat template \w+ instead of \w+/)
      if (forward) return
      for (let i = 0; i < 4; i++) expect(await chat(gateway.url)).toBe(200)
      const isOwn = serving[0] === first?.url
      const ids = idsOf(isOwn ? OWN : (local.template?.source ?? ''))
      expect(promptsOf(servers[isOwn ? 0 : 1] as FakeServer)).toEqual([ids, ids, ids, ids])
      expect(promptsOf(servers[isOwn ? 1 : 0] as FakeServer)).toEqual([])
    },
  )
})

describe('the start of the engine', () => {
  const start = async (source: string, options: Partial<UpstreamEngineOptions> = {}) => {
    const notes: string[] = []
    const { url } = await llama(source)
    const { engine } = await startedWithConfig({
      url,
      loadText: loadModelText,
      remoteTexts: new RemoteTexts(),
      onNote: (note) => notes.push(note),
      ...options,
    })
    open.push(() => engine.cleanup())
    return { template: engine.chatTemplate, notes: notes.join() }
  }

  it('the template of the model, with another line feed at its end - its files are used', async () => {
    const source = local.template?.source ?? ''
    for (const same of [source.replace(/\n$/, ''), `${source.replace(/\n$/, '')}\n`]) {
      expect(await start(same)).toEqual({ template: null, notes: '' })
    }
  })

  it("another template - the engine's is used, and a note says so", async () => {
    const { template, notes } = await start(OWN)
    expect(template).toBe(OWN)
    expect(notes).toMatch(/renders chats with another template .* rendered with the engine's/)
  })

  it('another template than --model - that of --model is used, and a note says so', async () => {
    const { template, notes } = await start(OWN, { modelPath: MODEL })
    expect(template).toBeNull()
    expect(notes).toMatch(/another template than --model: chats are rendered with that of --model/)
  })
})
