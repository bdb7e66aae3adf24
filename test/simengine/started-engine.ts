/** A started simulated engine with a virtual clock, and its replies. */
import { workerIdOf } from '../../src/base/index.ts'
import { RequestContext } from '../../src/engine/generate-context.ts'
import { validateStream } from '../../src/engine/validate-stream.ts'
import type { Chunk, GenerateRequest } from '../../src/request/index.ts'
import type { VirtualClock } from '../../src/sim/index.ts'
import { SimEngine } from '../../src/simengine/engine/sim-engine.ts'
import type { SimEngineOptions } from '../../src/simengine/engine/sim-options.ts'

export function requestOf(
  id: string,
  tokenCount: number,
  maxTokens: number | null,
  change: Partial<GenerateRequest> = {},
): GenerateRequest {
  return {
    requestId: id,
    model: 'sim',
    tokenIds: Uint32Array.from({ length: tokenCount }, (_, i) => i + 10),
    sampling: {},
    stop: maxTokens === null ? {} : { maxTokens },
    output: {},
    eosTokenIds: [2],
    routing: {},
    ...change,
  }
}

export async function started(
  clock: VirtualClock,
  options: Partial<SimEngineOptions> = {},
): Promise<SimEngine> {
  const engine = new SimEngine({ clock, model: 'sim', ...options })
  await engine.start(workerIdOf(1))
  return engine
}

export async function collect(
  engine: SimEngine,
  request: GenerateRequest,
  context = new RequestContext(request.requestId),
): Promise<Chunk[]> {
  const chunks: Chunk[] = []
  for await (const chunk of validateStream(engine.generate(request, context), { request, context }))
    chunks.push(chunk)
  return chunks
}

export const tokensOf = (chunks: readonly Chunk[]): number[] =>
  chunks.flatMap((chunk) => [...chunk.tokenIds])
