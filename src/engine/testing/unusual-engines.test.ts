/** Engines that follow the contract in an unusual way: the kit passes each of them. */
import { describe, expect, it } from 'vitest'
import { BatonError, sleep } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { finishChunk, usageOf } from '../../request/index.ts'
import type { Chunk, EngineConfig, GenerateRequest } from '../../request/index.ts'
import type { EngineChunk } from '../engine-chunk.ts'
import type { EngineObserver } from '../engine.ts'
import type { GenerateContext } from '../generate-context.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'
import {
  SoundEngine,
  block,
  chunks,
  items,
  life,
  make,
  never,
  noLocals,
} from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'

const configured = (config: Partial<EngineConfig>, engine: Broken): Broken => ({
  ...engine,
  make: (clock) => {
    const made = engine.make(clock)
    const start = made.start.bind(made)
    made.start = async (workerId) => ({ ...(await start(workerId)), ...config })
    return made
  },
})

/** Refuses the requests for which `isRefused` holds, as a request of a client that is wrong. */
const refusing = (
  isRefused: (request: GenerateRequest) => boolean,
  config: Partial<EngineConfig> = {},
): Broken =>
  configured(
    config,
    items(async function* (sound, request) {
      if (isRefused(request)) throw new BatonError('backend.invalid_argument', 'not that one')
      yield* sound()
    }),
  )

const inItemsOf = (count: number): Broken =>
  configured(
    { contextLength: 10_100, features: [] },
    items(async function* (_sound, { stop, tokenIds }, context, engine) {
      const total = stop.maxTokens ?? count
      for (let sent = 0; ; sent += count) {
        await engine.pause()
        if (context.isStopped) return yield finishChunk('cancelled')
        if (!engine.isRunning) throw new BatonError('backend.engine_shutdown', 'not running')
        const next = Array.from({ length: Math.min(count, total - sent) }, (_, i) => sent + i)
        if (sent + next.length < total) yield { tokenIds: next }
        else
          return yield { tokenIds: next, finish: 'length', usage: usageOf(tokenIds.length, total) }
      }
    }),
  )

const typed = (convert: (ids: readonly number[]) => EngineChunk['tokenIds']): Broken =>
  chunks((chunk) => ({ ...chunk, tokenIds: convert(chunk.tokenIds) }) as Chunk)

/** A text per token; an engine that has no ids. */
const inText = (usage: (chunk: Chunk) => Partial<Chunk>): Broken =>
  chunks(({ tokenIds, usage: _usage, logprobs: _logprobs, ...chunk }) => ({
    ...chunk,
    ...usage(chunk as Chunk),
    tokenIds: [],
    ...(tokenIds.length === 0 ? {} : { text: `${tokenIds.join(' ')} ` }),
  }))

/** One request at a time, `tokenMs` for each token; the others wait, and leave when they are stopped. */
const inTurn = (tokenMs: number, config: Partial<EngineConfig>): Broken =>
  configured(
    config,
    make(
      (Base) =>
        class extends Base {
          #isBusy = false

          override async *items(
            request: GenerateRequest,
            context: GenerateContext,
          ): AsyncGenerator<Chunk> {
            while (this.#isBusy && !context.isStopped && this.isRunning) await this.pause()
            if (this.#isBusy) return yield* super.items(request, context)
            this.#isBusy = true
            try {
              for await (const chunk of super.items(request, context)) {
                await sleep(this.clock, this.isRunning && !context.isStopped ? tokenMs : 0)
                yield chunk
              }
            } finally {
              this.#isBusy = false
            }
          }
        },
    ),
  )

const firstTokenAfter = (ms: number): Broken =>
  items(async function* (sound, { tokenIds }, context, engine) {
    if (engine.isRunning && tokenIds.length > 0 && !context.isStopped) await sleep(engine.clock, ms)
    yield* sound()
  })

const startsAfter = (ms: number): Broken =>
  make(
    (Base) =>
      class extends Base {
        override async start(): Promise<EngineConfig> {
          await sleep(this.clock, ms)
          return super.start()
        }
      },
  )

/** Log-probabilities of the prompt in several items, some of them with ids of the output. */
const scoring: Broken = configured(
  { features: ['logprobs', 'prompt_logprobs', 'seed'] },
  items(async function* (sound, { output, tokenIds }, context) {
    if (output.promptLogprobs === undefined || context.isStopped) return yield* sound()
    for (const [at, tokenId] of [...tokenIds].entries())
      if (at > 0)
        yield {
          tokenIds: [],
          promptLogprobs: { from: at, tokens: [{ tokenId, logprob: -1, top: [] }] },
        }
    yield* sound()
  }),
)

const prefill = (before: readonly Chunk[]): Broken => ({
  options: { mode: 'prefill' },
  ...items(async function* (_sound, { tokenIds }, context, engine) {
    for (const chunk of [...before, null]) {
      await engine.pause()
      const usage = usageOf(tokenIds.length, 0)
      if (context.isStopped) return yield finishChunk('cancelled', { usage })
      if (!engine.isRunning) throw new BatonError('backend.engine_shutdown', 'not running')
      const result = { prefillResult: { engineParams: { room: 1 } } }
      yield chunk ?? finishChunk('length', { usage, ...result })
    }
  }),
})

const embedsOnly = (clock: Clock) =>
  new (class extends SoundEngine {
    override async start(): Promise<EngineConfig> {
      await super.start()
      return { model: 'vectors', features: ['embeddings'], embeddingLength: 2, contextLength: 100 }
    }

    async embed(): Promise<Float32Array> {
      return Float32Array.of(1, 2)
    }

    override items(): AsyncGenerator<Chunk> {
      if (!this.isRunning) throw new BatonError('backend.engine_shutdown', 'not running')
      throw new BatonError('backend.invalid_argument', 'this model makes embeddings only')
    }
  })(clock)

const ranks = (from: number, count: number): Broken =>
  configured(
    { dataParallelStartRank: from, dataParallelSize: count, kvCacheBlockSize: 16 },
    life({
      observe: (observer: EngineObserver) => {
        for (let dpRank = from; dpRank < from + count; dpRank++) {
          const stored = { kind: 'stored', parent: null, hashes: block, tier: 'device' } as const
          observer.kvEvents(dpRank, [{ ...stored, localHashes: noLocals }])
          observer.load({
            dpRank,
            activeBlocks: 0,
            totalBlocks: 0,
            runningRequests: 0,
            queuedRequests: 0,
            prefillTokensInFlight: 0,
          })
        }
      },
      heldKv: () => [],
    }),
  )

/** Ends its replies earlier when others run, as an engine may whose results depend on the batch. */
const shorterTogether = (): Broken =>
  configured(
    { features: [] },
    items(async function* (sound, { tokenIds }, _context, engine) {
      const length = tokenIds.length + 1 - (engine.live > 1 ? 3 : 0)
      let count = 0
      for await (const chunk of sound()) {
        count += 1
        if (chunk.finish !== undefined || tokenIds.length === 0 || !engine.isRunning) yield chunk
        else if (count < length) yield { ...chunk, tokenIds: [7] }
        else return yield finishChunk('stop')
      }
    }),
  )

/** Works on `engineData` that says the same as the ids, and refuses a request in which they differ. */
const describedPrompt: Broken = {
  ...refusing(({ extra, tokenIds }) => extra?.['prompt'] !== tokenIds.join(' ')),
  options: {
    prepareRequest: (request) => ({
      ...request,
      extra: { ...request.extra, prompt: request.tokenIds.join(' ') },
    }),
  },
}

describe('runConformance - unusual engines', () => {
  it.each<[string, Broken]>([
    ['100 tokens per item', inItemsOf(100)],
    ['all tokens in one item', inItemsOf(10_000)],
    ['ids in Uint32Array', typed((ids) => Uint32Array.from(ids))],
    ['ids in Int32Array', typed((ids) => Int32Array.from(ids))],
    ['ids in Uint16Array', typed((ids) => Uint16Array.from(ids))],
    ['text without usage', inText(() => ({}))],
    [
      'text with usage at the end',
      inText((chunk) => (chunk.finish !== undefined ? { usage: usageOf(77, 2) } : {})),
    ],
    ['no usage', chunks(({ usage: _usage, ...chunk }) => chunk)],
    [
      'nothing in the config but a model',
      life({
        start: async function (this: SoundEngine) {
          this.isRunning = true
          return { model: 'm' }
        },
      }),
    ],
    ['a start of 25 s', startsAfter(25_000)],
    [
      'a start of two minutes, with that deadline',
      { ...startsAfter(120_000), options: { deadlineMs: 121_000 } },
    ],
    ['a first token after 1.5 s', firstTokenAfter(1500)],
    ['log-probabilities of the prompt in pieces', scoring],
    ['prefill with one item', prefill([])],
    [
      'prefill that tells before its end',
      prefill([{ tokenIds: [], prefillResult: { meetsDecode: true } }]),
    ],
    ['prefill in several items', prefill([{ tokenIds: [] }, { tokenIds: [] }])],
    ['decode', { ...chunks((chunk) => chunk), options: { mode: 'decode' } }],
    ['four ranks from the third on', ranks(2, 4)],
    ['embeddings only', { make: embedsOnly }],
    ['long outputs are refused', refusing(({ stop }) => (stop.maxTokens ?? 0) > 50)],
    [
      'outputs over half the context are refused',
      refusing(({ stop }) => (stop.maxTokens ?? 0) > 5000, { contextLength: 10_000 }),
    ],
    ['prompts of another length are refused', refusing(({ tokenIds }) => tokenIds.length !== 3)],
    ['prompts in another order are refused', refusing(({ tokenIds }) => tokenIds[0] !== 1)],
    [
      'what is over a small context is refused',
      refusing(({ tokenIds, stop }) => tokenIds.length + (stop.maxTokens ?? 0) > 8, {
        contextLength: 8,
      }),
    ],
    ['ids are read from another field, too', describedPrompt],
    ['one request at a time', inTurn(1, { maxNumSeqs: 1 })],
    ['one request at a time, slowly', inTurn(900, { maxNumSeqs: 1 })],
    [
      'one request at a time, slowly, and the config does not say it',
      inTurn(900, { maxNumSeqs: 8 }),
    ],
    ['replies that are shorter in a batch', shorterTogether()],
    [
      'a drain that waits for what runs',
      make(
        (Base) =>
          class extends Base {
            override async drain(): Promise<void> {
              while (this.live > 0) await this.pause()
            }
          },
      ),
    ],
    [
      'a drain that is no Promise of this realm',
      life({ drain: () => ({ then: (done: () => void) => done() }) as never }),
    ],
  ])('%s', async (_name, engine) => {
    expect(await rulesBrokenBy(engine)).toEqual([])
  })

  it.each<[string, readonly string[], Broken]>([
    ['refuses every request', ['generate-failed'], refusing(() => true)],
    [
      'makes embeddings only, of another length',
      ['embedding-wrong'],
      configured({ embeddingLength: 3 }, { make: embedsOnly }),
    ],
    [
      'refuses concurrent requests',
      ['concurrent-generate-failed'],
      items(async function* (sound, _request, _context, engine) {
        if (engine.live > 1) throw new BatonError('backend.invalid_argument', 'one at a time')
        yield* sound()
      }),
    ],
    [
      'never answers the last of eight concurrent requests',
      ['concurrent-generate-failed'],
      items(async function* (sound, _request, _context, engine) {
        if (engine.live > 7) await never()
        yield* sound()
      }),
    ],
    [
      'needs longer than the deadline for each of its requests in turn',
      ['response-timeout'],
      inTurn(5000, { maxNumSeqs: 1 }),
    ],
    ['has a drain of nothing', ['drain-failed'], life({ drain: () => null as never })],
  ])('one that %s - %j', async (_name, rules, engine) => {
    expect(await rulesBrokenBy(engine)).toEqual(rules)
  })
})
