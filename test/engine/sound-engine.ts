/** An engine that conforms to the contract, and variants that each break one rule. */
import { BatonError } from '../../src/base/index.ts'
import type { Clock } from '../../src/base/index.ts'
import type { KvEvent } from '../../src/kv/index.ts'
import { finishChunk, tokenChunk, usageOf } from '../../src/request/index.ts'
import type { Chunk, EngineConfig, FinishReason, GenerateRequest } from '../../src/request/index.ts'
import type { Engine, EngineObserver } from '../../src/engine/engine.ts'
import type { GenerateContext } from '../../src/engine/generate-context.ts'
import type { KvBlockSource } from '../../src/engine/kv-block-source.ts'
import { KvBlockStore } from '../../src/engine/kv-block-store.ts'
import type { ConformanceOptions } from '../../src/engine/testing/conformance-options.ts'

export const never = (): Promise<never> => new Promise(() => undefined)

/** Conforms to the contract; each broken engine overrides one thing. */
export class SoundEngine implements Engine {
  readonly clock: Clock
  isRunning = false
  live = 0

  constructor(clock: Clock) {
    this.clock = clock
  }

  async start(): Promise<EngineConfig> {
    this.isRunning = true
    return { model: 'sound', contextLength: 200, maxNumSeqs: 8, features: ['logprobs', 'seed'] }
  }

  pause(): Promise<void> {
    return new Promise((resolve) => {
      this.clock.after(1, resolve)
    })
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncGenerator<Chunk> {
    this.live += 1
    try {
      yield* this.items(request, context)
    } finally {
      this.live -= 1
    }
  }

  async *items(request: GenerateRequest, context: GenerateContext): AsyncGenerator<Chunk> {
    const tokensMax = request.stop.maxTokens ?? 4
    for (let count = 0; ; count++) {
      await this.pause()
      if (context.isStopped) return yield this.end('cancelled', request, count)
      if (!this.isRunning) throw new BatonError('backend.engine_shutdown', 'not running')
      if (count === tokensMax) return yield this.end('length', request, count)
      yield this.token(request, count)
    }
  }

  token(request: GenerateRequest, count: number): Chunk {
    const chunk = tokenChunk(10 + count)
    if (request.output.logprobs === undefined) return chunk
    return { ...chunk, logprobs: [{ tokenId: 10 + count, logprob: -1, top: [] }] }
  }

  end(finish: FinishReason, request: GenerateRequest, count: number): Chunk {
    const usage = usageOf(request.tokenIds.length, count)
    return finishChunk(finish, { usage, prefillResult: { engineParams: 1 } })
  }

  abort(): void {}

  async drain(): Promise<void> {}

  async cleanup(): Promise<void> {
    this.isRunning = false
  }
}

export type Make = (clock: Clock) => Engine
export interface Broken {
  readonly make: Make
  readonly options?: ConformanceOptions
}

export const make = (build: (Base: typeof SoundEngine) => new (clock: Clock) => Engine): Broken => {
  const Built = build(SoundEngine)
  return { make: (clock) => new Built(clock) }
}

export type Items = (
  sound: () => AsyncGenerator<Chunk>,
  request: GenerateRequest,
  context: GenerateContext,
  engine: SoundEngine,
) => AsyncGenerator<Chunk>

/** A reply derived from that of the conforming engine. */
export const items = (change: Items): Broken => ({
  make: (clock) => {
    const engine = new SoundEngine(clock)
    const sound = engine.items.bind(engine)
    engine.items = (request, context) =>
      change(() => sound(request, context), request, context, engine)
    return engine
  },
})

/** Invalid chunks for a plain request. */
export const chunks = (change: (chunk: Chunk) => Chunk): Broken =>
  items(async function* (sound) {
    for await (const chunk of sound()) yield change(chunk)
  })

/** The behaviour at the first check after a stop. */
export const afterStop = (
  react: (engine: SoundEngine, context: GenerateContext) => AsyncGenerator<Chunk>,
): Broken =>
  items(async function* (sound, _request, context, engine) {
    for await (const chunk of sound()) {
      if (chunk.finish === 'cancelled') yield* react(engine, context)
      yield chunk
    }
  })

export const replaced = (generate: (engine: SoundEngine) => AsyncIterable<Chunk>): Broken => ({
  make: (clock) => {
    const engine: Engine = new SoundEngine(clock)
    engine.generate = () => generate(engine as SoundEngine)
    return engine
  },
})

export const life = (change: Partial<Engine>): Broken => ({
  make: (clock) => Object.assign(new SoundEngine(clock), change) as Engine,
})

/** A store of one block for the prompt of the kit, of which a part is broken. */
export const kvBlocks = (change: Partial<KvBlockSource>): Broken => {
  const store = new KvBlockStore({
    fingerprint: 'sound',
    blockTokens: 4,
    bytesPerToken: 1,
    capacityBytes: 100,
  })
  const [low = 0, high = 0] = store.keysOf(Uint32Array.of(1, 2, 3), 2)
  store.put(low, high, 2, new Uint8Array(2))
  return life({ kvBlocks: Object.assign(store, change) })
}

export const events = (...list: KvEvent[]): Broken =>
  life({ observe: (observer: EngineObserver) => observer.kvEvents(0, list) })

export const block = Uint32Array.of(1, 2)
export const noLocals = new Uint32Array(0)
