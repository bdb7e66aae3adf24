/**
 * The guarantee that KV hand-over depends on: the output of a request does not depend on where it is computed or
 * with which other requests.
 *
 * Tokens and log-probabilities are compared, which differ if a single bit of the arithmetic differs. The tests use
 * the real model; KV blocks are copied from store to store as a transport would do.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seededRandom, workerIdOf } from '../src/base/index.ts'
import type { Random } from '../src/base/index.ts'
import { RequestContext } from '../src/engine/index.ts'
import { LlamaCppEngine } from '../src/llamacpp/index.ts'
import type { LlamaCppOptions } from '../src/llamacpp/index.ts'
import type { FinishReason, GenerateRequest, Sampling, Usage } from '../src/request/index.ts'

const MODEL = 'models/storyteller/storyteller-q8_0.gguf'
const VOCABULARY = 2000
const OUTPUT_TOKENS = 12

interface Output {
  readonly tokens: number[]
  readonly logprobs: number[]
  readonly finish: FinishReason | undefined
}

interface Run extends Output {
  readonly usage: Usage | undefined
}

const engines: LlamaCppEngine[] = []

async function startEngine(options: Partial<LlamaCppOptions> = {}): Promise<LlamaCppEngine> {
  const engine = new LlamaCppEngine({ modelPath: MODEL, sequences: 4, ...options })
  engines.push(engine)
  await engine.start(workerIdOf(engines.length))
  return engine
}

afterAll(async () => {
  await Promise.all(engines.map((engine) => engine.cleanup()))
})

function promptOf(length: number, random: Random): Uint32Array {
  return Uint32Array.from({ length }, () => 4 + Math.floor(random.next() * VOCABULARY))
}

const GREEDY: Sampling = { temperature: 0 }
const SEEDED: Sampling = { temperature: 0.9, topP: 0.95, topK: 100, seed: 20_250_101 }

let requests = 0
function requestOf(tokenIds: Uint32Array, sampling: Sampling, rest: Partial<GenerateRequest> = {}) {
  requests += 1
  const request: GenerateRequest = {
    requestId: `request-${requests}`,
    model: 'storyteller',
    tokenIds,
    sampling,
    stop: { maxTokens: OUTPUT_TOKENS, ignoreEos: true },
    output: { logprobs: 0 },
    eosTokenIds: [],
    routing: {},
    ...rest,
  }
  return request
}

async function run(engine: LlamaCppEngine, request: GenerateRequest): Promise<Run> {
  const tokens: number[] = []
  const logprobs: number[] = []
  for await (const chunk of engine.generate(request, new RequestContext(request.requestId))) {
    tokens.push(...chunk.tokenIds)
    for (const entry of chunk.logprobs ?? []) logprobs.push(entry.logprob)
    if (chunk.finish !== undefined)
      return { tokens, logprobs, finish: chunk.finish, usage: chunk.usage }
  }
  throw new Error('the stream ended without a terminal chunk')
}

function output({ tokens, logprobs, finish }: Run): Output {
  return { tokens, logprobs, finish }
}

/** Prefill on one engine, hand over the blocks, decode on the other engine. */
async function runApart(
  prefill: LlamaCppEngine,
  decode: LlamaCppEngine,
  request: GenerateRequest,
): Promise<Run> {
  await run(prefill, request)
  const [source, target] = [prefill.kvBlocks, decode.kvBlocks]
  if (source === undefined || target === undefined) throw new Error('an engine has no blocks')
  expect(target.fingerprint).toBe(source.fingerprint)
  const pin = source.pin(request.tokenIds, request.routing.cacheSalt)
  for (const index of target.missing(pin.blockKeys)) {
    const low = pin.blockKeys[2 * index] ?? 0
    const high = pin.blockKeys[2 * index + 1] ?? 0
    const bytes = source.get(low, high)
    if (bytes === undefined) throw new Error('a pinned block is gone')
    const tokens = Math.min(source.blockTokens, pin.tokenCount - index * source.blockTokens)
    expect(target.put(low, high, tokens, Uint8Array.from(bytes))).toBe(true)
  }
  pin.release()
  return run(decode, request)
}

describe('exactness of the llama.cpp engine', () => {
  let alone: LlamaCppEngine
  let prefill: LlamaCppEngine
  let decode: LlamaCppEngine

  beforeAll(async () => {
    // The reference has no prefix cache and another chunk size than the engines it is compared with.
    alone = await startEngine({ kvStoreBytes: 0, sequences: 1, prefillChunk: 512 })
    prefill = await startEngine({ mode: 'prefill', prefillChunk: 96 })
    decode = await startEngine({ mode: 'decode' })
  })

  const lengths = [
    1, 2, 3, 15, 16, 17, 18, 32, 33, 34, 63, 64, 65, 66, 100, 129, 255, 256, 257, 700,
  ]
  it.each([
    ['greedy', GREEDY],
    ['seeded', SEEDED],
  ])('separate prefill and decode - same result as on one engine, %s', async (_name, sampling) => {
    const random = seededRandom(7)
    const others = Array.from({ length: 12 }, () => 1 + Math.floor(random.next() * 600))
    for (const length of [...lengths, ...others]) {
      const request = requestOf(promptOf(length, random), sampling)
      const expected = await run(alone, request)
      const apart = await runApart(prefill, decode, request)
      expect(output(apart), `prompt of ${length} tokens`).toEqual(output(expected))
      expect(apart.usage?.cachedTokens).toBe(length - 1)
    }
  })

  it('near the context limit - same result, and the context limit ends the output', async () => {
    const random = seededRandom(11)
    const contextSize = 1024
    const one = await startEngine({ kvStoreBytes: 0, sequences: 1, prefillChunk: 512, contextSize })
    const first = await startEngine({ mode: 'prefill', prefillChunk: 96, contextSize })
    const second = await startEngine({ mode: 'decode', contextSize })
    const longest = promptOf(contextSize - 1, random)
    for (const length of [contextSize - 1, contextSize - 6]) {
      const request = requestOf(longest.slice(0, length), SEEDED)
      const expected = await run(one, request)
      expect(output(await runApart(first, second, request))).toEqual(output(expected))
      expect(expected.finish).toBe('length')
      expect(expected.tokens).toHaveLength(Math.min(OUTPUT_TOKENS, contextSize - length))
    }
  })

  it('prompts with a common prefix - the cached part does not change the result', async () => {
    const random = seededRandom(13)
    const shared = promptOf(200, random)
    for (const [kept, added] of [
      [200, 1],
      [200, 40],
      [199, 3],
      [160, 90],
      [17, 5],
      [200, 300],
    ] as const) {
      const rest = promptOf(added, random)
      const request = requestOf(Uint32Array.of(...shared.subarray(0, kept), ...rest), GREEDY)
      const expected = await run(alone, request)
      expect(output(await runApart(prefill, decode, request))).toEqual(output(expected))
    }
  })

  it('16 requests in flight - each has the same result as if it ran alone', async () => {
    const random = seededRandom(17)
    const shared = promptOf(50, random)
    const all = Array.from({ length: 16 }, (_, i) => {
      const own = promptOf(1 + ((i * 37) % 200), random)
      const tokens = i % 3 === 0 ? Uint32Array.of(...shared, ...own) : own
      return requestOf(tokens, i % 2 === 0 ? GREEDY : { ...SEEDED, seed: i })
    })
    const expected: Output[] = []
    for (const request of all) expected.push(output(await run(alone, request)))
    const together = await startEngine()
    const aggregated = await Promise.all(all.map((request) => run(together, request)))
    expect(aggregated.map(output)).toEqual(expected)
    const apart = await Promise.all(all.map((request) => runApart(prefill, decode, request)))
    expect(apart.map(output)).toEqual(expected)
  })

  it('a request resumed on another engine - continues with the same tokens', async () => {
    const random = seededRandom(19)
    const penalties = { presencePenalty: 0.5, frequencyPenalty: 0.3, repetitionPenalty: 1.1 }
    for (const sampling of [GREEDY, SEEDED, { ...SEEDED, ...penalties }]) {
      const tokenIds = promptOf(21, random)
      const whole = await run(alone, requestOf(tokenIds, sampling))
      for (const resumedTokens of [1, 5, OUTPUT_TOKENS - 1]) {
        const soFar = Uint32Array.of(...tokenIds, ...whole.tokens.slice(0, resumedTokens))
        const stop = { maxTokens: OUTPUT_TOKENS - resumedTokens, ignoreEos: true }
        const request = requestOf(soFar, sampling, { resumedTokens, stop })
        const rest = await runApart(prefill, decode, request)
        expect(rest.tokens).toEqual(whole.tokens.slice(resumedTokens))
        expect(rest.logprobs).toEqual(whole.logprobs.slice(resumedTokens))
      }
    }
  })

  it('a grammar - gives the same result after hand-over and resumption', async () => {
    const random = seededRandom(23)
    const gbnf = 'root ::= "{" [a-z]{1,6} ":" [0-9]{4,20} "}"'
    const sampling: Sampling = { ...SEEDED, guided: { kind: 'grammar', gbnf } }
    const tokenIds = promptOf(30, random)
    const stop = { maxTokens: OUTPUT_TOKENS }
    const whole = await run(alone, requestOf(tokenIds, sampling, { stop }))
    expect(
      output(await runApart(prefill, decode, requestOf(tokenIds, sampling, { stop }))),
    ).toEqual(output(whole))
    const soFar = Uint32Array.of(...tokenIds, ...whole.tokens.slice(0, 3))
    const rest = await run(
      decode,
      requestOf(soFar, sampling, { resumedTokens: 3, stop: { maxTokens: OUTPUT_TOKENS - 3 } }),
    )
    expect(rest.tokens).toEqual(whole.tokens.slice(3))
  })

  it.each([1, 2])(
    'long prompts together, %d threads - each has the same result as if it ran alone',
    async (threads) => {
      const random = seededRandom(31)
      const one = await startEngine({ sequences: 1, kvStoreBytes: 0, threads })
      const many = await startEngine({ threads, microBatch: 128 })
      const all = [300, 1500, 700, 255, 256].map((length, i) =>
        requestOf(promptOf(length, random), i % 2 === 0 ? GREEDY : SEEDED),
      )
      const expected: Output[] = []
      for (const request of all) expected.push(output(await run(one, request)))
      const together = await Promise.all(all.map((request) => run(many, request)))
      expect(together.map(output)).toEqual(expected)
    },
  )

  it.each<Partial<LlamaCppOptions>>([
    { flashAttention: false },
    { kvType: 'q8_0' },
    { kvType: 'f32' },
    { kvType: 'bf16' },
    { blockTokens: 7, microBatch: 64 },
  ])(
    'other KV cache types, %j - separate prefill and decode give the same result',
    async (options) => {
      const random = seededRandom(37)
      const settings = { ...options, contextSize: 1024 }
      const one = await startEngine({
        ...settings,
        sequences: 1,
        kvStoreBytes: 0,
        prefillChunk: 512,
      })
      const first = await startEngine({ ...settings, mode: 'prefill', prefillChunk: 96 })
      const second = await startEngine({ ...settings, mode: 'decode' })
      for (const length of [20, 33, 300, 700]) {
        const request = requestOf(promptOf(length, random), length % 2 === 0 ? GREEDY : SEEDED)
        const expected = await run(one, request)
        const apart = await runApart(first, second, request)
        expect(output(apart), `prompt of ${length} tokens`).toEqual(output(expected))
        expect(apart.usage?.cachedTokens).toBe(length - 1)
      }
    },
  )

  it('weights whose batches are not exact - are decoded one sequence at a time and are then exact', async () => {
    const random = seededRandom(29)
    const modelPath = MODEL.replace('q8_0', 'f16')
    const one = await startEngine({ modelPath, sequences: 1, kvStoreBytes: 0 })
    const many = await startEngine({ modelPath })
    const all = Array.from({ length: 6 }, (_, i) =>
      requestOf(promptOf(1 + i * 30, random), i % 2 === 0 ? GREEDY : SEEDED),
    )
    const expected: Output[] = []
    for (const request of all) expected.push(output(await run(one, request)))
    const together = await Promise.all(all.map((request) => run(many, request)))
    expect(together.map(output)).toEqual(expected)
  })
})
