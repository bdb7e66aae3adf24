/** Further ways to break a rule: the kit names that rule, and is never broken by the engine itself. */
import { describe, expect, it } from 'vitest'
import { finishChunk, textChunk, tokenChunk, usageOf } from '../../request/index.ts'
import type {
  Chunk,
  EngineConfig,
  GenerateRequest,
  PromptLogprobs,
  TokenLogprobs,
} from '../../request/index.ts'
import type { EngineObserver } from '../engine.ts'
import type { GenerateContext } from '../generate-context.ts'
import type { KvBlockSource, KvPin } from '../kv-block-source.ts'
import {
  SoundEngine,
  chunks,
  items,
  kvBlocks,
  life,
  make,
  replaced,
} from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'

const circle: Record<string, unknown> = {}
circle['self'] = circle
const hits = { name: 'hits_total', help: 'Hits', kind: 'counter', value: 1 }
let scrapes = 0
const metrics = (value: unknown): Broken => life({ metrics: () => value as never })
const generates = (value: unknown): Broken => replaced(() => value as never)
const next = (step: () => unknown): Broken =>
  generates({ [Symbol.asyncIterator]: () => ({ next: step }) })
const embeds = (vector: unknown, config: Partial<EngineConfig> = {}): Broken =>
  make(
    (Base) =>
      class extends Base {
        override async start(): Promise<EngineConfig> {
          await super.start()
          return { model: 'vectors', features: ['embeddings'], ...config }
        }

        embed(): Promise<Float32Array> {
          return Promise.resolve(vector as Float32Array)
        }
      },
  )
const sharedBuffer = new Float32Array(2)
/** Writes the vector of the prompt into a buffer, and answers later. */
const embedsIn = (buffer: () => Float32Array): Broken =>
  make(
    (Base) =>
      class extends Base {
        override async start(): Promise<EngineConfig> {
          await super.start()
          return { model: 'vectors', features: ['embeddings'] }
        }

        async embed({ tokenIds }: GenerateRequest): Promise<Float32Array> {
          const vector = buffer()
          vector.set([tokenIds.length, tokenIds[0] ?? 0])
          await this.pause()
          return vector
        }
      },
  )
/** Scores prompts when it is asked to, and only then. */
const scoring = (of: (tokens: readonly TokenLogprobs[]) => PromptLogprobs | undefined): Broken =>
  make(
    (Base) =>
      class extends Base {
        override async start(): Promise<EngineConfig> {
          return {
            ...(await super.start()),
            features: ['logprobs', 'prompt_logprobs'],
          }
        }

        override async *items(
          request: GenerateRequest,
          context: GenerateContext,
        ): AsyncGenerator<Chunk> {
          const ids = request.tokenIds.subarray(1)
          const tokens = Array.from(ids, (tokenId) => ({ tokenId, logprob: -1, top: [] }))
          const promptLogprobs =
            request.output.promptLogprobs === undefined ? undefined : of(tokens)
          if (promptLogprobs !== undefined) yield { tokenIds: [], promptLogprobs }
          yield* super.items(request, context)
        }
      },
  )
/** Repeats its prompt; with concurrent requests it repeats the newest one. */
const mixedEcho = (turn: (prompt: Uint32Array) => Uint32Array): Broken =>
  make((Base) => {
    let newest = new Uint32Array()
    return class extends Base {
      override async *items(
        request: GenerateRequest,
        context: GenerateContext,
      ): AsyncGenerator<Chunk> {
        newest = Uint32Array.from(turn(request.tokenIds))
        let count = 0
        for await (const chunk of super.items(request, context)) {
          const { logprobs, ...rest } = chunk
          const tokenIds = chunk.tokenIds.map(() => newest[count++ % newest.length] ?? 1)
          yield logprobs === undefined ? { ...rest, tokenIds } : chunk
        }
      }
    }
  })
/** Answers in text: the next of these replies with each seeded request. */
const textOfSeed = (...replies: (readonly string[])[]): Broken => {
  let next = 0
  return items(async function* (sound, request, context) {
    if (request.sampling.seed === undefined) return yield* sound()
    const pieces = replies[next++ % replies.length] ?? []
    for (const text of pieces) yield context.isStopped ? finishChunk('cancelled') : textChunk(text)
    yield finishChunk('stop')
  })
}
const observed = (tell: (observer: EngineObserver) => void): Broken => life({ observe: tell })
const unreadable = new Proxy(
  {},
  {
    getPrototypeOf: () => {
      throw new Error('trap')
    },
  },
)
const throwsAfterToken = (thrown: unknown): Broken =>
  items(async function* () {
    yield tokenChunk(1)
    throw thrown
  })
const strays = (thrown: unknown): Broken =>
  items(async function* (sound, request) {
    if (request.tokenIds.length > 0) void Promise.reject(thrown)
    yield* sound()
  })
const pins = (change: Partial<KvPin>): Broken =>
  kvBlocks({
    pin: () => ({
      tokenCount: 2,
      blockKeys: Uint32Array.of(1, 2),
      kvBytes: 8,
      release: () => undefined,
      ...change,
    }),
  })
/** The sound store, behind a source that forgets some of what it is asked. */
const sharing = (change: (store: KvBlockSource) => Partial<KvBlockSource>): Broken => {
  const { make: build } = kvBlocks({})
  return {
    make: (clock) => {
      const engine = build(clock)
      const store = engine.kvBlocks!
      const forgetful = Object.assign(Object.create(store) as KvBlockSource, {
        pin: store.pin.bind(store),
        keysOf: store.keysOf?.bind(store),
        get: store.get.bind(store),
        ...change(store),
      })
      Object.defineProperties(forgetful, { blockTokens: { value: store.blockTokens } })
      return Object.assign(engine, { kvBlocks: forgetful })
    },
  }
}
const noText = (): never => Object.create(null) as never

describe('runConformance - other ways to break a rule', () => {
  it.each<[string, string, Broken]>([
    ['items in lists', 'chunk-malformed', chunks((chunk) => [chunk] as never)],
    ['an echo of others', 'streams-mixed', mixedEcho((prompt) => prompt)],
    ['a backward echo of others', 'streams-mixed', mixedEcho((prompt) => prompt.toReversed())],
    ['records of nothing', 'chunk-malformed', chunks(() => ({ token_ids: [1] }) as never)],
    ['a text of 9 MiB', 'payload-invalid', chunks(() => ({ text: 'x'.repeat(9 << 20) }) as never)],
    [
      'wrong usage on a chunk before the end',
      'usage-mismatch',
      chunks((chunk) =>
        chunk.finish === undefined ? { ...chunk, usage: usageOf(3, 777) } : chunk,
      ),
    ],
    [
      'a text of which there are fewer tokens with each piece',
      'usage-mismatch',
      items(async function* (sound, { tokenIds }, context, engine) {
        if (context.isStopped || tokenIds.length === 0) return yield* sound()
        for (const count of [5, 3]) {
          await engine.pause()
          yield { ...textChunk('ab'), usage: usageOf(tokenIds.length, count) }
        }
        yield finishChunk('stop', { usage: usageOf(tokenIds.length, 1) })
      }),
    ],
    [
      'more cached than prompted, in what prefill gives',
      'cached-over-prompt',
      {
        ...chunks((chunk) => ({ ...chunk, prefillResult: { cachedTokens: 4 } })),
        options: { mode: 'prefill' },
      },
    ],
    [
      'the log-probabilities of the prompt from a wrong position',
      'prompt-logprobs-invalid',
      scoring((tokens) => ({ from: 2, tokens })),
    ],
    ['no log-probabilities of the prompt', 'logprobs-missing', scoring(() => undefined)],
    ['another text of the same seed', 'seed-not-repeatable', textOfSeed(['a', 'bc'], ['a', 'cb'])],
    ['a thrown value that cannot be read', 'error-untyped', throwsAfterToken(unreadable)],
    [
      'a start that throws what cannot be read',
      'start-failed',
      life({
        start: () => {
          throw unreadable
        },
      }),
    ],
    ['a rejection that cannot be read', 'stray-error', strays(unreadable)],
    ['a number for a stream', 'generate-failed', generates(5)],
    ['nothing for a stream', 'generate-failed', generates(undefined)],
    ['a promise of a stream', 'generate-failed', generates(Promise.resolve([]))],
    ['a list for a stream', 'generate-failed', generates([tokenChunk(1), finishChunk('length')])],
    [
      'next() that throws',
      'error-untyped',
      next(() => {
        throw new Error('no')
      }),
    ],
    ['next() without a result', 'chunk-malformed', next(() => Promise.resolve(undefined))],
    ['next() that is no promise', 'chunk-malformed', next(() => 7)],
    ['pins of nothing', 'kv-blocks-invalid', kvBlocks({ pin: () => null as never })],
    ['pins without keys', 'kv-blocks-invalid', pins({ blockKeys: [1, 2] as never })],
    ['pins of more than the prompt', 'kv-blocks-invalid', pins({ tokenCount: 3 })],
    ['pins of no number', 'kv-blocks-invalid', pins({ tokenCount: NaN })],
    ['pins of less than nothing', 'kv-blocks-invalid', pins({ kvBytes: -5 })],
    ['pins that cannot be released', 'kv-blocks-invalid', pins({ release: 5 as never })],
    [
      'blocks of another tenant',
      'kv-blocks-invalid',
      sharing((store) => ({ pin: (ids, _salt, lora) => store.pin(ids, undefined, lora) })),
    ],
    [
      'blocks of the model for an adapter',
      'kv-blocks-invalid',
      sharing((store) => ({ pin: (ids, salt) => store.pin(ids, salt) })),
    ],
    [
      'keys of another tenant',
      'kv-blocks-invalid',
      sharing((store) => ({ keysOf: (ids, count) => store.keysOf!(ids, count) })),
    ],
    ['blocks of text', 'kv-blocks-invalid', kvBlocks({ get: () => 'abc' as never })],
    ['blocks without bytes', 'kv-blocks-invalid', kvBlocks({ get: () => new Uint8Array() })],
    ['pinned blocks that are gone', 'kv-blocks-invalid', kvBlocks({ get: () => undefined })],
    [
      'blocks that throw',
      'kv-blocks-invalid',
      kvBlocks({
        get: () => {
          throw unreadable
        },
      }),
    ],
    ['no metrics', 'metrics-invalid', metrics(undefined)],
    ['a promise of metrics', 'metrics-invalid', metrics(Promise.resolve([]))],
    ['a metric that is none', 'metrics-invalid', metrics([null])],
    ['a metric of bigint', 'metrics-invalid', metrics([{ ...hits, value: 1n }])],
    ['a metric with a circle', 'metrics-invalid', metrics([{ ...hits, labels: { a: circle } }])],
    ['a metric twice', 'metrics-invalid', metrics([hits, hits])],
    [
      'a metric twice, with its labels in another order',
      'metrics-invalid',
      metrics([
        { ...hits, labels: { tier: 'host', rank: '0' } },
        { ...hits, labels: { rank: '0', tier: 'host' } },
      ]),
    ],
    [
      'a metric of two kinds',
      'metrics-invalid',
      metrics([
        { ...hits, labels: { tier: 'host' } },
        { ...hits, labels: { tier: 'disk' }, kind: 'gauge' },
      ]),
    ],
    [
      'a metric with other labels',
      'metrics-invalid',
      metrics([
        { ...hits, labels: { tier: 'host' } },
        { ...hits, labels: { rank: '0' } },
      ]),
    ],
    [
      'a metric with and without labels',
      'metrics-invalid',
      metrics([hits, { ...hits, labels: { tier: 'host' } }]),
    ],
    [
      'a label with another value at each scrape',
      'metrics-unstable',
      life({
        metrics: () => [{ ...hits, labels: { at: String(scrapes++) } }] as never,
      }),
    ],
    [
      'a counter that decreases, with its labels in another order',
      'counter-decreases',
      life({
        metrics: () => {
          scrapes += 1
          const names = ['a', 'b', 'c', 'a', 'b', 'c'].slice(scrapes % 3, (scrapes % 3) + 3)
          const labels = Object.fromEntries(names.map((name) => [name, 'x']))
          return [{ ...hits, value: 1000 - scrapes, labels }] as never
        },
      }),
    ],
    [
      'a health check request that is none',
      'health-check-failed',
      life({ healthCheckPayload: () => ({}) as never }),
    ],
    [
      'a drain that ends what runs',
      'drain-failed',
      make(
        (Base) =>
          class extends Base {
            override drain(): Promise<void> {
              return this.cleanup()
            }
          },
      ),
    ],
    ['one buffer for all embeddings', 'embedding-wrong', embedsIn(() => sharedBuffer)],
    ['an embedding of nothing', 'embedding-wrong', embeds(new Float32Array(0))],
    ['an embedding of texts', 'embedding-wrong', embeds(['1', '2'])],
    ['an embedding too large for f32', 'embedding-wrong', embeds([1e300, 1])],
    [
      'a rank without a text',
      'rank-unknown',
      observed((observer) => observer.kvEvents(noText(), [])),
    ],
    [
      'a context length without a text',
      'config-invalid',
      life({ start: () => Promise.resolve({ model: 'm', contextLength: noText() }) }),
    ],
    [
      'a LoRA adapter without a text, reported later',
      'config-invalid',
      observed((observer) => observer.loraAdapters?.([noText() as never])),
    ],
    [
      'an unknown field of bigint in the config',
      'config-invalid',
      life({ start: () => Promise.resolve({ model: 'm', builtBy: 1n } as EngineConfig) }),
    ],
    [
      'an unknown field with a circle in the config',
      'config-invalid',
      life({ start: () => Promise.resolve({ model: 'm', builtBy: circle } as EngineConfig) }),
    ],
    [
      'isQuiescent that promises',
      'quiescence-wrong',
      life({ isQuiescent: () => Promise.resolve(true) as never }),
    ],
    [
      'blocks that it says it holds, of no kind',
      'kv-event-malformed',
      life({ heldKv: () => [{ kind: 'lost' }] as never }),
    ],
    [
      'no engine',
      'start-failed',
      {
        make: () => {
          throw new Error('no engine')
        },
      },
    ],
  ])('%s - %s', async (_name, rule, broken) => {
    expect(await rulesBrokenBy(broken)).toEqual([rule])
  })

  it('metrics of one name with the labels of one set, in any order - are valid', async () => {
    const both = [
      { ...hits, labels: { tier: 'host', rank: '0' } },
      { ...hits, labels: { rank: '1', tier: 'host' } },
    ]
    expect(await rulesBrokenBy(metrics(both))).toEqual([])
  })

  it.each<[string, Broken]>([
    ['in a list', embeds([1, 2], { embeddingLength: 2 })],
    ['of f64', embeds(Float64Array.of(1, 2))],
    ['of each prompt', embedsIn(() => new Float32Array(2))],
  ])('an embedding %s - is what it is', async (_name, sound) => {
    expect(await rulesBrokenBy(sound)).toEqual([])
  })

  it('the text of a seed in other pieces - is the same', async () => {
    expect(await rulesBrokenBy(textOfSeed(['a', 'bc'], ['ab', 'c']))).toEqual([])
  })

  it('an error of a code, from another copy of Baton - is a typed error', async () => {
    const typed = Object.assign(new Error('no'), {
      name: 'BatonError',
      code: 'backend.invalid_argument',
      data: {},
    })
    const broken = items(async function* (sound, request) {
      if (request.tokenIds.length === 0) throw typed
      yield* sound()
    })
    expect(await rulesBrokenBy(broken)).toEqual([])
    expect(await rulesBrokenBy(throwsAfterToken(typed))).toEqual(['stream-error'])
  })

  it('the engines on which they are based - pass', async () => {
    expect(await rulesBrokenBy(kvBlocks({}))).toEqual([])
    expect(await rulesBrokenBy({ make: (clock) => new SoundEngine(clock) })).toEqual([])
  })
})
