/**
 * A complete engine that returns the prompt backwards, one token every few milliseconds. Run it with `baton serve --engine ./engine.js`.
 */
import { BatonError, finishChunk, tokenChunk, usageOf } from 'baton-llm/engine'
import type { Chunk, Engine, EngineConfig, GenerateContext } from 'baton-llm/engine'
import type { GenerateRequest } from 'baton-llm/engine'

export class BackwardsEngine implements Engine {
  #isRunning = false

  async start(): Promise<EngineConfig> {
    this.#isRunning = true
    return { model: 'backwards', contextLength: 4096, maxNumSeqs: 16, features: [] }
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<Chunk> {
    const prompt = request.tokenIds
    const tokensMax = request.stop.maxTokens ?? prompt.length
    for (let count = 0; ; count++) {
      await new Promise((resolve) => setTimeout(resolve, 2))
      const usage = usageOf(prompt.length, count)
      if (context.isStopped) return yield finishChunk('cancelled', { usage })
      if (!this.#isRunning) throw new BatonError('backend.engine_shutdown', 'not running')
      if (prompt.length === 0) throw new BatonError('backend.invalid_argument', 'empty prompt')
      if (count === tokensMax) return yield finishChunk('length', { usage })
      yield tokenChunk(prompt[prompt.length - 1 - (count % prompt.length)]!)
    }
  }

  async cleanup(): Promise<void> {
    this.#isRunning = false
  }
}
