import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
/** Engines whose model is on another machine: a gateway forwards requests, a frontend says what it needs. */
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { ModelPlaces } from '../../src/cli/compose/model-place.ts'
import { workerIdOf } from '../../src/base/index.ts'
import type { WorkerCard } from '../../src/request/index.ts'
import { startGateway } from '../forward/gateway-kit.ts'
import { local } from './llama-text.ts'
import { eventResponse, fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { FakeServer } from './transcripts.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end()
})

const { tokenizer } = local
const MODEL = fileURLToPath(new URL('../../models/storyteller/', import.meta.url))
const ELSEWHERE = '/nowhere/on/this/machine'

/** A vLLM server that reports `root`, and answers chats itself. */
async function vllm(
  root: string | null,
  tokens: (body: Record<string, unknown>) => Iterable<number> = () => [1, 2, 3],
): Promise<FakeServer> {
  const model = {
    id: 'm',
    object: 'model',
    max_model_len: 4096,
    owned_by: 'vllm',
    ...(root === null ? {} : { root }),
  }
  const server = await fakeServer(({ method, path, body }) => {
    if (path === '/v1/models') return jsonResponse(200, { data: [model] })
    if (path === '/health') return responseOf('vllm', 'get_health')
    if (path === '/version') return responseOf('vllm', 'get_version')
    if (path === '/metrics') return responseOf('vllm', 'get_metrics_idle')
    if (method === 'POST' && path === '/v1/chat/completions') {
      return eventResponse([{ choices: [{ delta: { content: 'own words' } }] }, 'data: [DONE]'])
    }
    if (method === 'POST' && path === '/tokenize') {
      const asked = JSON.parse(Buffer.from(body, 'latin1').toString()) as Record<string, unknown>
      return jsonResponse(200, { tokens: [...tokens(asked)] })
    }
    return undefined
  })
  open.push(() => server.close())
  return server
}

async function gateway(servers: readonly FakeServer[]): Promise<{ readonly url: string }> {
  const started = await startGateway(servers, { forward: false })
  open.push(() => started.close())
  return started
}

async function post(url: string, path: string, body: string): Promise<[number, string]> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body })
  return [response.status, await response.text()]
}

describe('a gateway without the model of its engine', () => {
  it.each([
    ['a folder that is not here', ELSEWHERE],
    ['no word of where it is', null],
  ])('%s - requests are forwarded to the engine unchanged', async (_name, root) => {
    const engine = await vllm(root)
    const { url } = await gateway([engine])
    const health = (await (await fetch(`${url}/health`)).json()) as { warnings: string[] }
    expect(health.warnings).toEqual([expect.stringContaining('are forwarded unchanged')])
    const body =
      '{"model":"m", "stream":true,  "unknown":1.50,"messages":[{"role":"user","content":"hi"}]}'
    expect(await post(url, '/v1/chat/completions', body)).toEqual([
      200,
      expect.stringContaining('own words'),
    ])
    const asked = engine.seen.filter(({ path }) => path === '/v1/chat/completions')
    expect(asked.map((request) => request.body)).toEqual([body])
    expect(await post(url, '/tokenize', '{"model":"m","prompt":"hi"}')).toEqual([
      200,
      expect.stringContaining('[1,2,3]'),
    ])
  })

  it('a name on the Hugging Face hub - its files are read from the cache on this machine', async () => {
    const hub = mkdtempSync(join(tmpdir(), 'baton-hub-'))
    open.push(() => rmSync(hub, { recursive: true, force: true }))
    vi.stubEnv('HF_HUB_CACHE', hub)
    open.push(() => vi.unstubAllEnvs())
    const snapshot = join(hub, 'models--org--name', 'snapshots', '0f3a')
    mkdirSync(snapshot, { recursive: true })
    for (const file of ['tokenizer.json', 'tokenizer_config.json', 'config.json']) {
      symlinkSync(join(MODEL, file), join(snapshot, file))
    }
    const engine = await vllm('org/name', ({ prompt }) =>
      typeof prompt === 'string' ? tokenizer.encode(prompt, { special: true }) : [1, 2, 3],
    )
    const { url } = await gateway([engine])
    expect(await post(url, '/tokenize', '{"model":"m","prompt":"hi"}')).toEqual([
      200,
      expect.stringContaining(JSON.stringify([...tokenizer.encode('hi', { special: true })])),
    ])
    // Baton has compared the tokenizers and sends token ids.
    await post(url, '/v1/chat/completions', '{"messages":[{"role":"user","content":"hi"}]}')
    const routes = engine.seen.map(({ path }) => path)
    expect(routes).toContain('/tokenize')
    expect(routes).toContain('/v1/completions')
    expect(routes).not.toContain('/v1/chat/completions')
  })

  it('an unknown model - is refused by Baton', async () => {
    const { url } = await gateway([await vllm(ELSEWHERE)])
    const [status] = await post(url, '/v1/chat/completions', '{"model":"x","messages":[]}')
    expect(status).toBeGreaterThanOrEqual(400)
    const [broken] = await post(url, '/v1/chat/completions', '{"model":')
    expect(broken).toBe(400)
  })
})

describe('ModelPlaces', () => {
  const card = (modelPath?: string): WorkerCard => ({
    workerId: workerIdOf(7n),
    mode: 'agg',
    host: 'a',
    port: 1,
    engineName: 'vllm',
    publishesKvEvents: false,
    version: '0',
    engine: { model: 'm', ...(modelPath === undefined ? {} : { modelPath }) },
  })

  const OURS = 'models/storyteller'
  const places = (isShippedModel: boolean, model: string) =>
    new ModelPlaces({
      config: { isShippedModel, model, modelCache: null },
      security: {},
      cards: () => [],
      onProblem: () => undefined,
    })

  it('a path that exists here - is read, whatever --model says', async () => {
    expect(await places(false, '/x').place(card(OURS))).toBe(OURS)
  })

  it('a path of another machine - the copy named by --model is read', async () => {
    expect(await places(false, OURS).place(card(ELSEWHERE))).toBe(OURS)
  })

  it('a path of another machine at which another model is here - the copy named by --model is read', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-place-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const half = join(folder, 'half.gguf')
    writeFileSync(half, 'GGUF')
    for (const path of [folder, half])
      expect(await places(false, OURS).place(card(path))).toBe(OURS)
    await expect(places(true, OURS).place(card(half))).rejects.toThrow(/cannot read .*half\.gguf/)
  })

  it('a path of another machine without --model - the error says what to do', async () => {
    const place = places(true, OURS).place(card(ELSEWHERE))
    await expect(place).rejects.toThrow(/\/nowhere.*start the frontend with --model/)
  })

  it('no path - --model is read', async () => {
    expect(await places(true, OURS).place(card())).toBe(OURS)
  })
})
