/** Steps that are computed ahead bring the same tokens at the same moments as steps with a timer each. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'
import { RequestContext } from '../../engine/index.ts'
import { VirtualClock } from '../../sim/index.ts'
import { SimEngine } from '../engine/sim-engine.ts'
import type { SimRunData } from '../engine/sim-stream.ts'

interface Call {
  readonly atMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Stopped so long after its beginning. */
  readonly stopMs: number | null
}

async function timesOf(
  calls: readonly Call[],
  isAhead: boolean,
  blockCount: number,
): Promise<string[][]> {
  const clock = new VirtualClock()
  const engine = new SimEngine({
    clock,
    model: 'sim',
    blockCount,
    blockTokens: 16,
    maxSequences: 4,
    ...(isAhead ? { ahead: clock } : {}),
  })
  await engine.start('1' as Parameters<typeof engine.start>[0])
  const seen: string[][] = []
  const random = seededRandom(1)
  for (const [i, call] of calls.entries()) {
    const lines: string[] = []
    seen.push(lines)
    const tokenIds = Uint32Array.from({ length: call.promptTokens }, () =>
      Math.floor(100 * random.next()),
    )
    clock.after(call.atMs, () => {
      const context = new RequestContext(`r${i}`)
      if (call.stopMs !== null) clock.after(call.stopMs, () => context.stop())
      const request = {
        requestId: `r${i}`,
        model: 'sim',
        tokenIds,
        sampling: {},
        stop: { maxTokens: call.outputTokens, ignoreEos: true },
        output: {},
        eosTokenIds: [],
        routing: {},
      }
      void (async () => {
        try {
          for await (const chunk of engine.generate(request, context)) {
            const ends = (chunk.engineData as SimRunData | undefined)?.stepEndsMs
            for (const [k, id] of chunk.tokenIds.entries())
              lines.push(`${id}@${(ends?.[k] ?? clock.nowMs()).toFixed(6)}`)
            if (chunk.finish !== undefined) lines.push(chunk.finish)
          }
        } catch (error) {
          lines.push(String(error))
        }
      })()
    })
  }
  await clock.run()
  return seen
}

const call = fc.record({
  atMs: fc.integer({ min: 0, max: 2000 }),
  promptTokens: fc.integer({ min: 1, max: 300 }),
  outputTokens: fc.integer({ min: 1, max: 120 }),
  stopMs: fc.option(fc.integer({ min: 0, max: 800 }), { freq: 4 }),
})

describe('steps ahead', () => {
  it('brings the same tokens at the same moments as one timer per step', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(call, { minLength: 1, maxLength: 12 }),
        fc.constantFrom(64, 4096),
        async (calls, blockCount) => {
          expect(await timesOf(calls, true, blockCount)).toEqual(
            await timesOf(calls, false, blockCount),
          )
        },
      ),
      { numRuns: 60 },
    )
  })
})
