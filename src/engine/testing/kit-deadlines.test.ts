/** The kit ends, whatever an engine does, and accepts one that needs as long as is allowed. */
import { describe, expect, it } from 'vitest'
import { sleep } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { finishChunk, textChunk, tokenChunk, usageOf } from '../../request/index.ts'
import type { Chunk, GenerateRequest } from '../../request/index.ts'
import { VirtualClock } from '../../sim/index.ts'
import { runConformance } from './run-conformance.ts'
import { TOKENS_MAX } from './stream-reader.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'
import { SoundEngine, items, make, never, replaced } from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'

const DEADLINE_MS = 5000

/** Each plain stream needs that long in total, in items of which none is late. */
const needing = (totalMs: number): Broken => ({
  ...items(async function* (sound, { tokenIds, stop }, _context, engine) {
    if (!engine.isRunning || stop.maxTokens !== 8) return yield* sound()
    for (let count = 0; count < 4; count++) {
      await sleep(engine.clock, totalMs / 4)
      yield tokenChunk(1)
    }
    yield finishChunk('stop', { usage: usageOf(tokenIds.length, 4) })
  }),
  options: { deadlineMs: DEADLINE_MS, skip: { drop: 'it would take long' } },
})

/** An engine whose health check has no `maxTokens`, and gets that many tokens. */
const probing = (tokens: number): Broken =>
  make(
    (Base) =>
      class extends Base {
        healthCheckPayload(): GenerateRequest {
          return {
            requestId: 'probe',
            model: 'sound',
            tokenIds: Uint32Array.of(1),
            sampling: {},
            stop: {},
            output: {},
            eosTokenIds: [],
            routing: {},
          }
        }

        override async *generate(
          ...[request, context]: Parameters<SoundEngine['generate']>
        ): AsyncGenerator<Chunk> {
          if (request.stop.maxTokens !== undefined) return yield* super.generate(request, context)
          for (let count = 0; count < tokens; count++) yield tokenChunk(1)
          yield finishChunk('stop', { usage: usageOf(1, tokens) })
        }
      },
  )

describe('runConformance - deadlines', () => {
  it.each<[string, number, readonly string[]]>([
    ['less than the deadline', DEADLINE_MS - 4, []],
    ['exactly the deadline', DEADLINE_MS, []],
    ['more than the deadline', DEADLINE_MS + 4, ['response-timeout']],
  ])('a stream that needs %s - %s ms', async (_name, totalMs, rules) => {
    expect(await rulesBrokenBy(needing(totalMs))).toEqual(rules)
  })

  it('an item now and then that brings nothing, for ever - is reported', async () => {
    const endless = items(async function* (sound, _request, context, engine) {
      while (!context.isStopped) {
        await sleep(engine.clock, 50)
        yield { tokenIds: [] }
      }
      yield* sound()
    })
    expect(await rulesBrokenBy(endless)).toEqual(['response-timeout'])
  })

  it('streams that hang when they are closed - do not cost a deadline each', async () => {
    const clock = new VirtualClock({ settle: () => new Promise(setImmediate) })
    const engine = new SoundEngine(clock)
    const sound = engine.generate.bind(engine)
    engine.generate = (request, context) => {
      const stream = sound(request, context)
      stream.return = never
      return stream
    }
    const report = await clock.runUntil(runConformance(() => engine, { clock }))
    expect(report.failures.map(({ rule }) => rule)).toEqual(['drop-not-observed'])
    expect(clock.nowMs()).toBeLessThan(10 * 30_000)
  })

  it('items without a pause, which let no timer fire - are reported', async () => {
    const virtual = new VirtualClock({ settle: () => new Promise(setImmediate) })
    let nowMs = 0
    const clock: Clock = {
      nowMs: () => (nowMs += 10),
      epochMs: () => 0,
      after: (delayMs, fire) => virtual.after(delayMs, fire),
    }
    const { make: build } = replaced(async function* () {
      for (;;) yield textChunk('a')
    })
    const options = { clock, deadlineMs: 100, skip: { 'stop-before-first': 'not this' } }
    const report = await virtual.runUntil(runConformance(() => build(virtual), options))
    expect(report.failures.at(0)?.rule).toBe('response-timeout')
  })

  it.each([
    [TOKENS_MAX - 1, []],
    [TOKENS_MAX, []],
    [TOKENS_MAX + 1, ['health-check-failed']],
    [Infinity, ['health-check-failed']],
  ])('a health check without `maxTokens` that gets %s tokens', async (tokens, rules) => {
    expect(await rulesBrokenBy(probing(tokens))).toEqual(rules)
  })

  it.each<[string, () => unknown]>([
    ['never resolves', never],
    ['resolves with nothing', () => Promise.resolve()],
    ['returns null', () => null],
  ])('a factory that %s - is reported', async (_name, factory) => {
    expect(await rulesBrokenBy({ make: factory as Broken['make'] })).toEqual(['start-failed'])
  })

  it('a factory that makes only one engine - is reported', async () => {
    let made = 0
    const factory: Broken['make'] = (clock) =>
      (made++ === 0 ? new SoundEngine(clock) : never()) as never
    expect(await rulesBrokenBy({ make: factory })).toEqual(['start-failed'])
  })
})
