/** One broken engine for each rule of the contract: the conformance kit names the rule. */
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { textChunk, tokenChunk, usageOf } from '../../request/index.ts'
import type { Chunk, EngineConfig, FinishReason, GenerateRequest } from '../../request/index.ts'
import { VirtualClock } from '../../sim/index.ts'
import type { EngineObserver } from '../engine.ts'
import type { GenerateContext } from '../generate-context.ts'
import { describeFailures } from './conformance-report.ts'
import { CONFORMANCE_RULES } from './conformance-rules.ts'
import type { ConformanceRule } from './conformance-rules.ts'
import { runConformance } from './run-conformance.ts'
import {
  SoundEngine,
  afterStop,
  block,
  chunks,
  events,
  items,
  kvBlocks,
  life,
  make,
  never,
  noLocals,
  replaced,
} from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'

const BROKEN: Readonly<Record<ConformanceRule, Broken>> = {
  'chunk-malformed': chunks((chunk) => ({ ...chunk, tokenIds: 'ten' as never })),
  'item-after-terminal': items(async function* (sound) {
    yield* sound()
    yield tokenChunk(1)
  }),
  'missing-terminal': replaced(async function* () {
    yield tokenChunk(1)
  }),
  'error-untyped': items(async function* (sound, request) {
    if (request.tokenIds.length === 0) throw new Error('empty')
    yield* sound()
  }),
  'finish-unknown': chunks((chunk) =>
    chunk.finish === undefined ? chunk : { ...chunk, finish: 'tired' as FinishReason },
  ),
  'item-too-large': chunks((chunk) =>
    chunk.finish === undefined ? { ...chunk, tokenIds: new Uint32Array(2 ** 28) as never } : chunk,
  ),
  'token-invalid': chunks((chunk) =>
    chunk.finish === undefined ? { ...chunk, tokenIds: [-1] } : chunk,
  ),
  'tokens-over-max': chunks((chunk) =>
    chunk.finish === undefined ? { ...chunk, tokenIds: [1, 1] } : chunk,
  ),
  'items-empty': replaced(async function* () {
    for (;;) yield { tokenIds: [] }
  }),
  'text-over-max': replaced(async function* () {
    for (;;) yield textChunk('endless')
  }),
  'prompt-logprobs-invalid': chunks((chunk) => ({
    ...chunk,
    promptLogprobs: { from: 0, tokens: [] },
  })),
  'usage-mismatch': chunks((chunk) =>
    chunk.usage === undefined
      ? chunk
      : { ...chunk, usage: usageOf(chunk.usage.promptTokens, chunk.usage.completionTokens + 1) },
  ),
  'usage-invalid': chunks((chunk) =>
    chunk.usage === undefined ? chunk : { ...chunk, usage: { ...chunk.usage, promptTokens: -1 } },
  ),
  'cached-over-prompt': chunks((chunk) =>
    chunk.usage === undefined ? chunk : { ...chunk, usage: { ...chunk.usage, cachedTokens: 999 } },
  ),
  'usage-prompt-mismatch': chunks((chunk) =>
    chunk.usage === undefined
      ? chunk
      : { ...chunk, usage: usageOf(chunk.usage.promptTokens + 1, chunk.usage.completionTokens) },
  ),
  'payload-invalid': chunks((chunk) => ({ ...chunk, engineData: () => 1 })),
  'usage-total-mismatch': chunks((chunk) =>
    chunk.usage === undefined ? chunk : { ...chunk, usage: { ...chunk.usage, totalTokens: 0 } },
  ),
  'logprobs-mismatch': chunks((chunk) =>
    chunk.logprobs === undefined ? chunk : { ...chunk, logprobs: [] },
  ),
  'logprob-invalid': chunks((chunk) =>
    chunk.logprobs === undefined
      ? chunk
      : { ...chunk, logprobs: chunk.logprobs.map((one) => ({ ...one, logprob: NaN })) },
  ),
  'logprobs-missing': chunks(({ logprobs: _logprobs, ...chunk }) => chunk),
  'tokens-after-cancel': afterStop(async function* () {
    yield tokenChunk(1)
  }),
  'cancel-ignored': chunks((chunk) =>
    chunk.finish === 'cancelled' ? { ...chunk, finish: 'stop' } : chunk,
  ),
  'start-failed': life({ start: () => Promise.reject(new Error('no')) }),
  'model-empty': life({ start: async () => ({ model: '' }) }),
  'config-invalid': make(
    (Base) =>
      class extends Base {
        override async start(): Promise<EngineConfig> {
          return { ...(await super.start()), kvCacheBlockSize: 0 }
        }
      },
  ),
  'generate-failed': replaced(() => {
    throw new BatonError('backend.unknown', 'no')
  }),
  'no-chunks': replaced(async function* () {}),
  'stream-error': replaced(async function* () {
    yield tokenChunk(1)
    throw new BatonError('backend.unknown', 'no')
  }),
  'stream-not-closed': items(async function* (sound) {
    yield* sound()
    await never()
  }),
  'response-timeout': replaced(async function* () {
    yield await never()
  }),
  'cancelled-unasked': chunks((chunk) =>
    chunk.finish === undefined ? chunk : { ...chunk, finish: 'cancelled' },
  ),
  'concurrent-generate-failed': items(async function* (sound, _request, _context, engine) {
    if (engine.live > 4) throw new BatonError('capacity.worker_overloaded', 'too many')
    yield* sound()
  }),
  // Generates by the prompt; with concurrent requests it uses the prompt of the newest one.
  'streams-mixed': make((Base) => {
    let newest = 0
    return class extends Base {
      override async *items(
        request: GenerateRequest,
        context: GenerateContext,
      ): AsyncGenerator<Chunk> {
        const { length } = request.tokenIds
        newest = length
        for await (const chunk of super.items(request, context)) {
          const answer = this.live > 1 && newest !== length ? newest : length
          const tokenIds = chunk.tokenIds.map((id) => id + 100 * answer)
          const { logprobs: _logprobs, ...rest } = chunk
          yield request.output.logprobs === undefined ? { ...rest, tokenIds } : chunk
        }
      }
    }
  }),
  'stray-error': items(async function* (sound, request) {
    if (request.tokenIds.length > 0) void Promise.reject(new Error('nobody awaits this'))
    yield* sound()
  }),
  'prefill-result-missing': {
    ...chunks(({ prefillResult: _prefillResult, ...chunk }) => chunk),
    options: { mode: 'prefill' },
  },
  'seed-not-repeatable': make((Base) => {
    let next = 0
    return class extends Base {
      override token(request: GenerateRequest, count: number): Chunk {
        return request.sampling.seed === undefined
          ? super.token(request, count)
          : tokenChunk(next++)
      }
    }
  }),
  'embedding-wrong': make(
    (Base) =>
      class extends Base {
        override async start(): Promise<EngineConfig> {
          await super.start()
          return { model: 'wrong', features: ['embeddings'], embeddingLength: 3 }
        }

        embed(): Promise<Float32Array> {
          return Promise.resolve(Float32Array.of(1, NaN, 3))
        }
      },
  ),
  'cancellation-not-observed': afterStop(async function* () {
    yield await never()
  }),
  'kill-not-observed': afterStop(async function* (_engine, context) {
    if (context.isKilled) yield await never()
  }),
  'cancel-hurts-others': items(async function* (sound, _request, _context, engine) {
    for await (const chunk of sound()) {
      if (chunk.finish === 'cancelled' && engine.live > 1) engine.isRunning = false
      yield chunk
    }
    if (engine.live === 1) engine.isRunning = true
  }),
  'drop-not-observed': items(async function* (sound) {
    let hasEnded = false
    try {
      for await (const chunk of sound()) {
        hasEnded = chunk.finish !== undefined
        yield chunk
      }
    } finally {
      if (!hasEnded) await never()
    }
  }),
  'drop-not-released': make(
    (Base) =>
      class extends Base {
        #places = 8

        override async *items(
          request: GenerateRequest,
          context: GenerateContext,
        ): AsyncGenerator<Chunk> {
          while (this.#places === 0 && !context.isStopped) await this.pause()
          this.#places -= 1
          // Not in `finally`, so a reader that leaves does not free its place.
          for await (const chunk of super.items(request, context)) {
            if (chunk.finish !== undefined) this.#places += 1
            yield chunk
          }
        }
      },
  ),
  'generate-before-start': make(
    (Base) =>
      class extends Base {
        override isRunning = true
      },
  ),
  'abort-failed': life({ abort: () => Promise.reject(new Error('unknown request')) }),
  'health-check-failed': make(
    (Base) =>
      class extends Base {
        healthCheckPayload(): GenerateRequest {
          return { ...REQUEST, requestId: 'canary' }
        }

        override async *items(
          request: GenerateRequest,
          context: GenerateContext,
        ): AsyncGenerator<Chunk> {
          if (request.requestId === 'canary') throw new BatonError('backend.unknown', 'ill')
          yield* super.items(request, context)
        }
      },
  ),
  'observe-failed': life({
    observe: () => {
      throw new Error('no')
    },
  }),
  'rank-unknown': life({ observe: (observer: EngineObserver) => observer.kvEvents(1, []) }),
  'kv-event-malformed': events({ kind: 'removed', hashes: Uint32Array.of(1), tier: 'device' }),
  'kv-event-parent-unknown': events({
    kind: 'stored',
    parent: [9, 9],
    hashes: block,
    localHashes: noLocals,
    tier: 'device',
  }),
  'kv-event-removed-unknown': events({ kind: 'removed', hashes: block, tier: 'device' }),
  'load-report-invalid': life({
    observe: (observer: EngineObserver) =>
      observer.load({
        dpRank: 0,
        activeBlocks: 9,
        totalBlocks: 8,
        runningRequests: 0,
        queuedRequests: 0,
        prefillTokensInFlight: 0,
      }),
  }),
  'kv-blocks-invalid': kvBlocks({
    pin: () => ({
      tokenCount: 2,
      blockKeys: Uint32Array.of(1),
      kvBytes: 8,
      release: () => undefined,
    }),
  }),
  'metrics-failed': life({
    metrics: () => {
      throw new Error('no numbers today')
    },
  }),
  'metrics-invalid': life({ metrics: () => [{ ...hits, name: 'hits per second' }] }),
  'metrics-unstable': life({ metrics: () => [{ ...hits, name: `hits${scrapes++}_total` }] }),
  'counter-decreases': life({
    metrics: () => [{ ...hits, value: 1000 - scrapes++ }],
  }),
  'quiescence-wrong': life({
    isQuiescent: () => {
      throw new Error('no')
    },
  }),
  'drain-failed': life({ drain: never }),
  'cleanup-failed': life({ cleanup: never }),
  'cleanup-leaves-streams': make(
    (Base) =>
      class extends Base {
        override async pause(): Promise<void> {
          await super.pause()
          if (!this.isRunning && this.live > 1) await never()
        }
      },
  ),
  'second-cleanup-failed': make(
    (Base) =>
      class extends Base {
        #isDone = false

        override async cleanup(): Promise<void> {
          if (this.#isDone) throw new BatonError('runtime.internal', 'already cleaned up')
          this.#isDone = true
          await super.cleanup()
        }
      },
  ),
  'cleanup-without-start-failed': make(
    (Base) =>
      class extends Base {
        override async cleanup(): Promise<void> {
          if (!this.#wasStarted) throw new BatonError('runtime.internal', 'nothing to clean up')
          await super.cleanup()
        }

        #wasStarted = false

        override start(): Promise<EngineConfig> {
          this.#wasStarted = true
          return super.start()
        }
      },
  ),
}

const REQUEST: GenerateRequest = {
  requestId: 'r',
  model: 'sound',
  tokenIds: Uint32Array.of(1),
  sampling: {},
  stop: { maxTokens: 1 },
  output: {},
  eosTokenIds: [],
  routing: {},
}

const hits = { name: 'hits_total', help: 'Hits', kind: 'counter', value: 1 } as const
let scrapes = 0

function check(broken: Broken) {
  // A turn of the event loop: an error of one engine outside any call must not be seen while the next one is checked.
  const clock = new VirtualClock({ settle: () => new Promise(setImmediate) })
  const options = { clock, ...broken.options }
  return clock.runUntil(runConformance(() => broken.make(clock), options))
}

describe('runConformance - broken engines', () => {
  it('a correct engine - passes', async () => {
    const report = await check({ make: (clock) => new SoundEngine(clock) })
    expect(describeFailures(report)).toBe('')
  })

  it.each(Object.keys(CONFORMANCE_RULES) as ConformanceRule[])('%s - is reported', async (rule) => {
    const report = await check(BROKEN[rule])
    expect(report.passed).toBe(false)
    expect(report.failures.map((failure) => failure.rule)).toEqual([rule])
  })
})
