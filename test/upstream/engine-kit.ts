/** An adapter in front of a raw TCP server, and requests to it. */
import { RequestContext } from '../../src/engine/index.ts'
import { osClock } from '../../src/os/index.ts'
import { workerIdOf } from '../../src/base/index.ts'
import type { Chunk, EngineConfig, GenerateRequest } from '../../src/request/index.ts'
import { UpstreamEngine } from '../../src/upstream/index.ts'
import type { UpstreamEngineOptions } from '../../src/upstream/index.ts'

/** `Tell me a story about a brave fox named Mira who lives in the forest.` in the chat template. */
export const STORY = [
  1, 562, 272, 207, 1290, 384, 265, 411, 417, 265, 1327, 1292, 402, 1523, 746, 303, 285, 269, 895,
  22, 2, 207, 1, 412, 289, 324, 207,
]

let count = 0

export function requestOf(parts: Partial<GenerateRequest> = {}): GenerateRequest {
  return {
    requestId: `request-${++count}`,
    model: 'storyteller',
    tokenIds: Uint32Array.from(STORY),
    sampling: { temperature: 0 },
    stop: { maxTokens: 4 },
    output: {},
    eosTokenIds: [2],
    routing: {},
    ...parts,
  }
}

type Options = Omit<UpstreamEngineOptions, 'clock' | 'mode'> & Partial<UpstreamEngineOptions>

export async function startedEngine(options: Options): Promise<UpstreamEngine> {
  return (await startedWithConfig(options)).engine
}

export async function startedWithConfig(
  options: Options,
): Promise<{ readonly engine: UpstreamEngine; readonly config: EngineConfig }> {
  const engine = new UpstreamEngine({
    clock: osClock,
    mode: 'agg',
    watchMs: 3_600_000,
    startDeadlineMs: 0,
    ...options,
  })
  return { engine, config: await engine.start(workerIdOf(1n)) }
}

export async function chunksOf(
  engine: UpstreamEngine,
  request: GenerateRequest,
  context = new RequestContext(request.requestId),
): Promise<Chunk[]> {
  const chunks: Chunk[] = []
  for await (const chunk of engine.generate(request, context)) chunks.push(chunk)
  return chunks
}

export function tokensOf(chunks: readonly Chunk[]): number[] {
  return chunks.flatMap(({ tokenIds }) => [...tokenIds])
}
