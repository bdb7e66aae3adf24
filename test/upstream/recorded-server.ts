/** A server with the recorded answers of vLLM, SGLang or an OpenAI server, and an engine adapter in front of it. */
import { onTestFinished } from 'vitest'
import type { BatonError } from '../../src/base/index.ts'
import { StreamValidator } from '../../src/engine/index.ts'
import { loadModelText } from '../../src/host/index.ts'
import type { Chunk, GenerateRequest } from '../../src/request/index.ts'
import type { UpstreamEngine, UpstreamEngineOptions } from '../../src/upstream/index.ts'
import { startedEngine } from './engine-kit.ts'
import { fakeServer, jsonResponse, responseOf } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

/** Closes them after the test in this order. */
export function closeAfterwards(...ends: readonly { close(): unknown }[]): void {
  onTestFinished(async () => {
    for (const end of ends) await end.close()
  })
}

export const ABOUT: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  vllm: {
    'GET /health': 'get_health',
    'GET /ping': 'get_ping',
    'GET /version': 'get_version',
    'GET /v1/models': 'get_models',
    'GET /metrics': 'get_metrics_idle',
  },
  sglang: {
    'GET /health': 'get_health',
    'GET /model_info': 'get_model_info',
    'GET /server_info': 'get_server_info',
    'GET /v1/models': 'get_models',
    'GET /v1/loads': 'get_loads',
  },
  'mlx-lm': { 'GET /health': 'get_health', 'GET /v1/models': 'get_models' },
  'transformers-serve': { 'GET /health': 'get_health', 'GET /v1/models': 'get_models' },
}

export interface Served {
  readonly server: FakeServer
  readonly engine: UpstreamEngine
  /** Bodies of the generation requests. */
  readonly bodies: () => Record<string, unknown>[]
}

/** A server that describes itself like the recorded one. */
export async function served(
  kind: string,
  answer: (request: SeenRequest) => Buffer | string | null | undefined,
  options: Partial<UpstreamEngineOptions> = {},
): Promise<Served> {
  const server = await fakeServer((request) => {
    const about = ABOUT[kind]?.[`${request.method} ${request.path}`]
    if (about !== undefined) return responseOf(kind, about)
    if (request.path === '/inference/v1/generate' && request.body.includes('"token_ids":[]')) {
      return jsonResponse(options.kind === 'openai' ? 404 : 403, { error: { message: 'off' } })
    }
    return request.method === 'GET' ? undefined : answer(request)
  })
  const engine = await startedEngine({ url: server.url, ...options })
  closeAfterwards({ close: () => engine.cleanup() }, server)
  return {
    server,
    engine,
    bodies: () =>
      server.seen
        .filter(
          ({ path, body }) => /completions|generate/.test(path) && !body.includes('"token_ids":[]'),
        )
        .map(({ body }) => JSON.parse(body) as Record<string, unknown>),
  }
}

export function validated(request: GenerateRequest, chunks: readonly Chunk[]): void {
  const validator = new StreamValidator({ request })
  for (const chunk of chunks) validator.chunk(chunk)
}

export async function failureOf(work: Promise<unknown>): Promise<BatonError> {
  return await work.then(
    () => {
      throw new Error('it did not fail')
    },
    (error: BatonError) => error,
  )
}

export const recorded = (kind: string, name: string) => (): Buffer => responseOf(kind, name)
export const MODEL = { modelPath: 'models/storyteller', loadText: loadModelText }
