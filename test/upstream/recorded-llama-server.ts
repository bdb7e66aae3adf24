/** A server with the recorded answers of a llama-server, and an engine adapter in front of it. */
import { onTestFinished } from 'vitest'
import type { UpstreamEngine, UpstreamEngineOptions } from '../../src/upstream/index.ts'
import { startedEngine } from './engine-kit.ts'
import { fakeServer, responseOf } from './transcripts.ts'
import type { FakeServer, SeenRequest } from './transcripts.ts'

/** Closes them after the test in this order. */
export function closeAfterwards(...ends: readonly { close(): unknown }[]): void {
  onTestFinished(async () => {
    for (const end of ends) await end.close()
  })
}

export const ABOUT: Readonly<Record<string, string>> = {
  'GET /props': 'get_props',
  'GET /health': 'get_health',
  'GET /v1/models': 'get_models',
  'GET /metrics': 'get_metrics_idle',
}

/** A server that describes itself like a real one; `complete` answers `/completion`. */
export async function llamaServer(
  complete: (request: SeenRequest) => Buffer | string | null,
  options: Partial<UpstreamEngineOptions> = {},
): Promise<{ readonly server: FakeServer; readonly engine: UpstreamEngine }> {
  const server = await fakeServer((request) => {
    const about = ABOUT[`${request.method} ${request.path}`]
    return about === undefined ? complete(request) : responseOf('llama-server', about)
  })
  const engine = await startedEngine({ url: server.url, ...options })
  closeAfterwards({ close: () => engine.cleanup() }, server)
  return { server, engine }
}

export const recorded = (name: string) => (): Buffer => responseOf('llama-server', name)

export function bodyOf(request: SeenRequest | undefined): Record<string, unknown> {
  return JSON.parse(request?.body ?? 'null') as Record<string, unknown>
}

export const event = (tokens: number[], rest: object = {}): object => ({
  content: 'x',
  tokens,
  stop: false,
  ...rest,
})
export const END = event([], {
  stop: true,
  stop_type: 'limit',
  tokens_evaluated: 27,
  timings: { cache_n: 26 },
})
