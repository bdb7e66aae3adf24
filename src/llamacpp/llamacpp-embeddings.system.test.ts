import { describe, expect, it } from 'vitest'
import { RequestContext } from '../engine/index.ts'
import { loadModelText } from '../host/tokenizer/model-files.ts'
import {
  MODEL,
  codeOf,
  collect,
  requestOf,
  startEngine,
} from '../../test/fixtures/llamacpp-engines.ts'

describe('LlamaCppEngine - embeddings', () => {
  const cosine = (a: Float32Array, b: Float32Array) => a.reduce((sum, x, i) => sum + x * b[i]!, 0)

  it('vectors - have the stated length, are repeatable beside a running stream, similar for similar texts', async () => {
    const { engine, config } = await startEngine()
    const { tokenizer } = await loadModelText(MODEL)
    const embed = (text: string) => {
      const request = requestOf({
        kind: 'embed',
        tokenIds: tokenizer.encode(text, { special: false }),
      })
      return engine.embed(request, new RequestContext(request.requestId))
    }
    const running = collect(engine, requestOf())
    const [cat, again, kitten, robot] = await Promise.all([
      embed('The cat sits in the garden.'),
      embed('The cat sits in the garden.'),
      embed('The cat sat in the garden.'),
      embed('Repeat after me: lamp zafi tiger'),
    ])
    expect((await running).tokens).toHaveLength(8)
    expect([config.embeddingLength, cat.length]).toEqual([192, 192])
    expect(again).toEqual(cat)
    expect(cosine(cat, cat)).toBeCloseTo(1, 5)
    expect(cosine(cat, kitten)).toBeGreaterThan(cosine(cat, robot))
  })

  it('too long a text, an unknown token, a full queue - typed refusals', async () => {
    const { engine } = await startEngine({ contextSize: 64, queueMax: 1 })
    const embed = (tokenIds: Uint32Array) => {
      const request = requestOf({ kind: 'embed', tokenIds })
      return codeOf(engine.embed(request, new RequestContext(request.requestId)))
    }
    expect(await embed(new Uint32Array(64).fill(100))).toBe('no error')
    expect(await embed(new Uint32Array(65).fill(100))).toBe('request.context_length_exceeded')
    expect(await embed(Uint32Array.of(999_999))).toBe('backend.invalid_argument')
    expect(await embed(new Uint32Array(0))).toBe('backend.invalid_argument')
    const [first, second] = [embed(Uint32Array.of(1)), embed(Uint32Array.of(2))]
    expect([await first, await second]).toEqual(['no error', 'capacity.worker_overloaded'])
  })

  it('cleanup - waiting requests are refused, nothing is left running', async () => {
    const { engine } = await startEngine()
    const request = requestOf({ kind: 'embed', tokenIds: new Uint32Array(4000).fill(100) })
    const pending = [1, 2].map(() =>
      codeOf(engine.embed(request, new RequestContext(request.requestId))),
    )
    await engine.cleanup()
    expect(new Set(await Promise.all(pending))).toEqual(new Set(['backend.engine_shutdown']))
    expect(await codeOf(engine.embed(request, new RequestContext('late')))).toBe(
      'backend.engine_shutdown',
    )
  })

  it('a cancelled request - ends between two pieces of the text', async () => {
    const { engine } = await startEngine({ prefillChunk: 16 })
    const request = requestOf({ kind: 'embed', tokenIds: new Uint32Array(4000).fill(100) })
    const context = new RequestContext(request.requestId)
    const embedding = engine.embed(request, context)
    context.stop()
    expect(await embedding).toHaveLength(0)
  })
})
