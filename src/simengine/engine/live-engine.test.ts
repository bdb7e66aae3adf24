import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { settle } from '../../os/index.ts'
import { BatonError, workerIdOf } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { KvEvent, LoadReport } from '../../kv/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { VirtualClock } from '../../sim/index.ts'
import { RequestContext } from '../../engine/generate-context.ts'
import { validateStream } from '../../engine/validate-stream.ts'
import { SimEngine } from './sim-engine.ts'
import type { SimFault } from './sim-options.ts'

type Ending = 'finish' | 'stop' | 'kill' | 'drop' | 'fail' | 'slow' | 'unread'

const jobOf = fc.record({
  promptTokens: fc.integer({ min: 1, max: 60 }),
  maxTokens: fc.integer({ min: 1, max: 40 }),
  atMs: fc.nat(200),
  ending: fc.constantFrom<Ending>(
    'finish',
    'finish',
    'stop',
    'kill',
    'drop',
    'fail',
    'slow',
    'unread',
  ),
  afterMs: fc.nat(300),
})
type Job = typeof jobOf extends fc.Arbitrary<infer T> ? T : never

function requestOf(job: Job, index: number): GenerateRequest {
  return {
    requestId: `r${index}`,
    model: 'sim',
    tokenIds: Uint32Array.from({ length: job.promptTokens }, (_, i) => i + (index % 3) * 100),
    sampling: {},
    stop: { maxTokens: job.maxTokens },
    output: {},
    eosTokenIds: [],
    routing: {},
  }
}

function faultOf(job: Job): SimFault | undefined {
  if (job.ending === 'fail')
    return { kind: 'fail', atToken: job.maxTokens >> 1, code: 'backend.unknown' }
  return job.ending === 'slow' ? { kind: 'slow', restMs: 7 } : undefined
}

/** Plays one client; the outcome is how the stream ended for it. */
async function play(
  engine: SimEngine,
  clock: VirtualClock,
  job: Job,
  index: number,
): Promise<string> {
  await new Promise<void>((resolve) => clock.after(job.atMs, resolve))
  const request = requestOf(job, index)
  const context = new RequestContext(request.requestId)
  const stream = engine.generate(request, context)
  if (job.ending === 'unread') return 'unread'
  if (job.ending === 'stop') clock.after(job.afterMs, () => context.stop())
  if (job.ending === 'kill') clock.after(job.afterMs, () => context.kill())
  const dropAt = clock.nowMs() + job.afterMs
  try {
    for await (const chunk of validateStream(stream, { request, context })) {
      if (chunk.finish !== undefined) return chunk.finish
      if (job.ending === 'drop' && clock.nowMs() >= dropAt) return 'dropped'
    }
    return 'nothing'
  } catch (error) {
    return error instanceof BatonError ? error.code : 'untyped'
  }
}

const EXPECTED: Readonly<Record<Ending, readonly string[]>> = {
  finish: ['length'],
  stop: ['length', 'cancelled'],
  kill: ['length', 'cancelled'],
  drop: ['length', 'dropped'],
  fail: ['backend.unknown'],
  slow: ['length'],
  unread: ['unread'],
}

describe('SimEngine - random clients', () => {
  it('every stream follows the contract and everything is released', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(jobOf, { minLength: 1, maxLength: 20 }),
        fc.constantFrom<number | 'instantaneous'>(1, 50, 'instantaneous'),
        async (jobs, speedupRatio) => {
          const clock = new VirtualClock({ settle })
          const byId = new Map(jobs.map((job, i) => [`r${i}`, job]))
          const engine = new SimEngine({
            clock,
            model: 'sim',
            speedupRatio,
            blockTokens: 8,
            blockCount: 30,
            maxSequences: 6,
            faultFor: (request) => faultOf(byId.get(request.requestId)!),
          })
          await engine.start(workerIdOf(1))
          const loads: LoadReport[] = []
          const events: KvEvent[] = []
          engine.observe({
            kvEvents: (_rank, list) => events.push(...list),
            load: (report) => loads.push(report),
          })
          const outcomes = await clock.runUntil(
            Promise.all(jobs.map((job, i) => play(engine, clock, job, i))),
          )
          for (const [i, outcome] of outcomes.entries())
            expect(EXPECTED[jobs[i]!.ending]).toContain(outcome)
          await clock.run()
          expect(engine.isQuiescent()).toBe(true)
          if (loads.length > 0)
            expect(loads.at(-1)).toMatchObject({
              activeBlocks: 0,
              runningRequests: 0,
              queuedRequests: 0,
              prefillTokensInFlight: 0,
            })
        },
      ),
      { numRuns: 40 },
    )
  })
})

describe('SimEngine - timers with a resolution of a millisecond', () => {
  it('a request during the last fraction of a step - waits for its end', async () => {
    const clock = new VirtualClock()
    // Like the operating system's timers: fractions of a millisecond are cut off, so a timer may fire early.
    const early: Clock = {
      nowMs: () => clock.nowMs(),
      epochMs: () => clock.epochMs(),
      after: (delayMs, fire) => clock.after(Math.trunc(delayMs), fire),
    }
    const engine = new SimEngine({ clock: early, model: 'sim', seed: 1 })
    await clock.runUntil(engine.start(workerIdOf(1)))
    const job: Job = { promptTokens: 5, maxTokens: 3, atMs: 0, ending: 'finish', afterMs: 0 }
    for (let index = 0; index < 3; index++) {
      expect(await clock.runUntil(play(engine, clock, job, index))).toBe('length')
    }
    await engine.cleanup()
  })
})
