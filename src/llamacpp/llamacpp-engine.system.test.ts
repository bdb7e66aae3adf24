import { describe, expect, it } from 'vitest'
import { BatonError, workerIdOf } from '../base/index.ts'
import { RequestContext } from '../engine/index.ts'
import { describeFailures, runConformance } from '../engine/testing/index.ts'
import type { Chunk, GenerateRequest } from '../request/index.ts'
import { loadModelText } from '../host/tokenizer/model-files.ts'
import { osClock } from '../os/os-clock.ts'
import { LlamaCppEngine } from './llamacpp-engine.ts'
import {
  MODEL,
  codeOf,
  collect,
  requestOf,
  startEngine,
} from '../../test/fixtures/llamacpp-engines.ts'

describe('LlamaCppEngine', () => {
  it.each(['agg', 'prefill', 'decode'] as const)('conformance kit - passes as %s', async (mode) => {
    const factory = () => new LlamaCppEngine({ modelPath: MODEL, mode })
    const failingRequest = requestOf({ tokenIds: Uint32Array.of(1, 999_999) })
    const report = await runConformance(factory, { clock: osClock, mode, failingRequest })
    expect(describeFailures(report)).toBe('')
    expect(report.passed).toBe(true)
  })

  it('config - contains the model’s own numbers', async () => {
    const { config } = await startEngine({ sequences: 3 })
    expect(config).toMatchObject({
      model: 'storyteller-q8_0',
      contextLength: 4096,
      kvCacheBlockSize: 16,
      maxNumSeqs: 3,
      totalKvBlocks: 768,
    })
  })

  it('without a block store - the config names no block size, so that nobody waits for KV events', async () => {
    const { config } = await startEngine({ kvStoreBytes: 0 })
    expect(config).not.toHaveProperty('kvCacheBlockSize')
  })

  it.each([
    [{ batching: 'auto' }, 'exact'],
    [{ batching: 'auto', threads: 2 }, 'exact'],
    [{ batching: 'throughput' }, 'throughput'],
  ] as const)('batching %j - the config says %s', async (options, batching) => {
    const { config } = await startEngine(options)
    expect(config.runtimeData).toMatchObject({ batching })
  })

  it('a free slot between two others - does not change their output', async () => {
    const { engine } = await startEngine({ sequences: 4 })
    const stop = { maxTokens: 60, ignoreEos: true }
    const alone = await collect(engine, requestOf({ stop }))
    const short = { stop: { maxTokens: 4, ignoreEos: true } }
    const all = [requestOf({ stop }), requestOf(short), requestOf(short), requestOf({ stop })]
    const [first, , , last] = await Promise.all(all.map((request) => collect(engine, request)))
    expect([first?.tokens, last?.tokens]).toEqual([alone.tokens, alone.tokens])
  })

  it('a repeated prompt - is not computed again and says so; events name its blocks once', async () => {
    const { engine, events } = await startEngine()
    const first = await collect(engine, requestOf())
    const second = await collect(engine, requestOf())
    expect(first.last?.usage).toEqual({
      promptTokens: 40,
      completionTokens: 8,
      totalTokens: 48,
      cachedTokens: 0,
    })
    expect(second.last?.usage?.cachedTokens).toBe(39)
    expect(second.tokens).toEqual(first.tokens)
    expect(events.map((event) => event.kind)).toEqual(['stored'])
    expect(events[0]).toMatchObject({ parent: null, tier: 'host' })
    const salted = await collect(engine, requestOf({ routing: { cacheSalt: 'tenant' } }))
    expect(salted.last?.usage?.cachedTokens).toBe(0)
    expect(await engine.controls.clear_kv_blocks()).toEqual({ cleared: 6 })
    expect(
      events.filter((event) => event.kind === 'removed').map((event) => event.hashes.length),
    ).toEqual([8])
  })

  it('a small store - stays within its bytes and reports evicted blocks', async () => {
    const { engine, events } = await startEngine({ kvStoreBytes: 3072 * 16 * 3 })
    for (let i = 0; i < 5; i++) {
      await collect(
        engine,
        requestOf({ tokenIds: Uint32Array.from({ length: 60 }, (_, k) => 300 + i + k) }),
      )
      expect(engine.kvBlocks?.heldBytes).toBeLessThanOrEqual(3072 * 16 * 3)
    }
    expect(events.some((event) => event.kind === 'removed')).toBe(true)
  })

  it('cancelled while running - ends with cancelled within one step, and the slot is free', async () => {
    const { engine, loads } = await startEngine({ sequences: 1 })
    const request = requestOf({ stop: { maxTokens: 3000, ignoreEos: true } })
    const context = new RequestContext(request.requestId)
    const chunks: Chunk[] = []
    for await (const chunk of engine.generate(request, context)) {
      chunks.push(chunk)
      if (chunks.length === 3) context.stop()
    }
    expect(chunks.at(-1)?.finish).toBe('cancelled')
    expect(chunks.length).toBeLessThanOrEqual(5)
    await engine.drain()
    expect(loads.at(-1)).toMatchObject({ activeBlocks: 0, runningRequests: 0, queuedRequests: 0 })
    expect((await collect(engine, requestOf())).last?.finish).toBe('length')
  })

  it('cancelled while it waits for a slot - ends without having been computed', async () => {
    const { engine } = await startEngine({ sequences: 1 })
    const long = collect(engine, requestOf({ stop: { maxTokens: 200, ignoreEos: true } }))
    const request = requestOf()
    const context = new RequestContext(request.requestId)
    const waiting = collect(engine, request, context)
    context.stop()
    expect((await waiting).chunks).toHaveLength(1)
    expect((await waiting).last?.finish).toBe('cancelled')
    expect((await long).tokens).toHaveLength(200)
  })

  it('more requests than slots and queue - the last is refused, the others are served in order', async () => {
    const { engine } = await startEngine({ sequences: 1, queueMax: 2 })
    const order: number[] = []
    const serve = (i: number) => collect(engine, requestOf()).then(() => order.push(i))
    // The first is admitted to the slot in a later step, so the queue has to hold two.
    const all = [serve(0), serve(1)]
    expect(await codeOf(collect(engine, requestOf()))).toBe('capacity.worker_overloaded')
    await Promise.all(all)
    expect(order).toEqual([0, 1])
  })

  it('a long prompt - does not block decoding of other requests', async () => {
    const { engine } = await startEngine({ prefillChunk: 64 })
    const order: string[] = []
    const watch = async (name: string, request: GenerateRequest) => {
      for await (const chunk of engine.generate(request, new RequestContext(name))) {
        if (chunk.tokenIds.length > 0) order.push(name)
      }
    }
    const short = watch('short', requestOf({ stop: { maxTokens: 20, ignoreEos: true } }))
    const tokenIds = Uint32Array.from({ length: 2000 }, (_, i) => 4 + (i % 1900))
    await Promise.all([short, watch('long', requestOf({ tokenIds }))])
    expect(order.indexOf('long')).toBeGreaterThanOrEqual(20)
  })

  it('stop token, end of text, minimum - each ends or continues as requested', async () => {
    const { engine } = await startEngine()
    const plain = await collect(engine, requestOf())
    const third = plain.tokens[2] ?? 0
    const index = plain.tokens.indexOf(third)
    const stopped = await collect(
      engine,
      requestOf({ stop: { maxTokens: 8, stopTokenIds: [third] } }),
    )
    expect(stopped.tokens).toEqual(plain.tokens.slice(0, index))
    expect(stopped.last).toMatchObject({ finish: 'stop', stopReason: third })
    const shown = { maxTokens: 8, stopTokenIds: [third], includeStopInOutput: true }
    expect((await collect(engine, requestOf({ stop: shown }))).tokens).toEqual(
      plain.tokens.slice(0, index + 1),
    )
    const eos = await collect(engine, requestOf({ eosTokenIds: [third], stop: { maxTokens: 8 } }))
    expect(eos.last).toMatchObject({ finish: 'eos', stopReason: third })
    const atLeast = { maxTokens: 8, minTokens: 5, stopTokenIds: [third] }
    const kept = await collect(engine, requestOf({ stop: atLeast }))
    expect(kept.tokens.slice(0, 5)).not.toContain(third)
  })

  it('logit bias, penalties and seed - change the chosen tokens', async () => {
    const { engine } = await startEngine()
    const biased = await collect(
      engine,
      requestOf({ sampling: { temperature: 0, logitBias: { 77: 100 } } }),
    )
    expect(biased.tokens).toEqual(Array.from({ length: 8 }, () => 77))
    const penalised = { temperature: 0, logitBias: { 77: 50 }, presencePenalty: 100 }
    const once = await collect(engine, requestOf({ sampling: penalised }))
    expect(once.tokens.filter((token) => token === 77)).toHaveLength(1)
    const drawn = (seed?: number) =>
      collect(
        engine,
        requestOf({ sampling: { temperature: 1.5, ...(seed === undefined ? {} : { seed }) } }),
      )
    expect((await drawn(5)).tokens).toEqual((await drawn(5)).tokens)
    expect((await drawn(5)).tokens).not.toEqual((await drawn(6)).tokens)
    expect((await drawn()).tokens).not.toEqual((await drawn()).tokens)
  })

  it('logprobs - the chosen token and the alternatives, best first', async () => {
    const { engine } = await startEngine()
    const { chunks, tokens } = await collect(engine, requestOf({ output: { logprobs: 3 } }))
    const entries = chunks.flatMap((chunk) => chunk.logprobs ?? [])
    expect(entries.map((entry) => entry.tokenId)).toEqual(tokens)
    for (const entry of entries) {
      expect(entry.top).toHaveLength(3)
      expect(entry.top[0]).toEqual({ tokenId: entry.tokenId, logprob: entry.logprob })
      const sum = entry.top.reduce((total, rival) => total + Math.exp(rival.logprob), 0)
      expect(sum).toBeLessThanOrEqual(1.0001)
    }
  })

  it('guided decoding - generates only what the grammar allows', async () => {
    const { engine } = await startEngine()
    const guided = { kind: 'grammar', gbnf: 'root ::= [0-9] [0-9] [0-9]' } as const
    const numbers = await collect(
      engine,
      requestOf({ sampling: { temperature: 1, guided }, stop: { maxTokens: 8 } }),
    )
    expect(numbers.last?.finish).toBe('eos')
    const broken = { kind: 'grammar', gbnf: 'root ::= [' } as const
    // Prefill refuses it too, because otherwise the prompt would be computed in vain.
    const { engine: prefill } = await startEngine({ mode: 'prefill' })
    for (const one of [engine, prefill]) {
      expect(await codeOf(collect(one, requestOf({ sampling: { guided: broken } })))).toBe(
        'request.invalid_argument',
      )
    }
    const regex = { kind: 'regex', pattern: '\\ba' } as const
    expect(await codeOf(collect(engine, requestOf({ sampling: { guided: regex } })))).toBe(
      'request.unsupported_parameter',
    )
  })

  it('a JSON schema - every output is JSON of that schema', async () => {
    const { engine } = await startEngine()
    const { tokenizer } = await loadModelText(MODEL)
    const schema = {
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 12 },
        age: { type: 'integer', minimum: 0, maximum: 130 },
        pets: { type: 'array', items: { enum: ['fox', 'owl "Zed"'] }, maxItems: 2 },
        next: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/point' }] },
      },
      required: ['name', 'age'],
      additionalProperties: false,
      $defs: { point: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] } },
    }
    for (let seed = 0; seed < 6; seed++) {
      const sampling = { temperature: 1.3, seed, guided: { kind: 'json-schema', schema } } as const
      const reply = await collect(engine, requestOf({ sampling, stop: { maxTokens: 400 } }))
      expect(reply.last?.finish).toBe('eos')
      const value = JSON.parse(tokenizer.decode(reply.tokens)) as Record<string, unknown>
      const keys = Object.keys(value)
      expect(keys.slice(0, 2)).toEqual(['name', 'age'])
      expect(keys.every((key) => key in schema.properties)).toBe(true)
      expect(value['age']).toBeLessThanOrEqual(130)
      expect(String(value['name']).length).toBeLessThanOrEqual(12)
    }
  })

  it('cleanup during the start - ends the start', async () => {
    const engine = new LlamaCppEngine({ modelPath: MODEL })
    const starting = codeOf(engine.start(workerIdOf(1)))
    await engine.cleanup()
    expect(await starting).toBe('backend.engine_shutdown')
  })

  it.each([
    { sequences: 0 },
    { threads: 1.5 },
    { contextSize: -1 },
    { mode: 'decode', kvStoreBytes: 0 },
  ] as const)('an invalid option - is refused by name: %j', (options) => {
    expect(() => new LlamaCppEngine({ modelPath: MODEL, ...options })).toThrowError(BatonError)
  })

  it.each([
    ['no tokens', { tokenIds: new Uint32Array(0) }, 'backend.invalid_argument'],
    ['a foreign token', { tokenIds: Uint32Array.of(5, 4_000_000_000) }, 'backend.invalid_argument'],
    [
      'a prompt as long as the context',
      { tokenIds: new Uint32Array(4096).fill(5) },
      'request.context_length_exceeded',
    ],
    [
      'a foreign token in logit_bias',
      { sampling: { logitBias: { 5000: 1 } } },
      'backend.invalid_argument',
    ],
  ] as const)('a request with %s - is refused', async (_what, change, code) => {
    const engine = (await startEngine()).engine
    expect(await codeOf(collect(engine, requestOf(change)))).toBe(code)
  })

  it('a foreign block that does not fit - is refused before it reaches llama.cpp', async () => {
    const { engine } = await startEngine({ mode: 'decode' })
    const put = () => engine.kvBlocks?.put(1, 2, 16, new Uint8Array(1000))
    expect(put).toThrowError(BatonError)
    expect((await collect(engine, requestOf())).tokens).toHaveLength(8)
  })

  it('cleanup while requests run - ends the streams with a retryable error; nothing is accepted any more', async () => {
    const { engine } = await startEngine()
    const request = requestOf({ stop: { maxTokens: 3000, ignoreEos: true } })
    const context = new RequestContext(request.requestId)
    const stream = engine.generate(request, context)[Symbol.asyncIterator]()
    expect((await stream.next()).done).toBe(false)
    const rest = async (): Promise<void> => {
      let isDone = false
      while (!isDone) isDone = (await stream.next()).done === true
    }
    const running = codeOf(rest())
    await engine.cleanup()
    expect(await running).toBe('backend.engine_shutdown')
    expect(await codeOf(collect(engine, requestOf()))).toBe('backend.engine_shutdown')
    await engine.cleanup()
  })
})
