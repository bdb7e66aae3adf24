/** Steps that are computed ahead bring the same tokens at the same moments as steps with a timer each, and whoever looks meanwhile sees the same engine. */
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
  looksMs: readonly number[] = [],
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
  let load = ''
  const blocks = new Set<string>()
  engine.observe({
    load: (report) => {
      load = JSON.stringify(report)
    },
    kvEvents: (_rank, events) => {
      for (const event of events) {
        const hashes = event.kind === 'cleared' ? [] : event.hashes
        for (let i = 0; i < hashes.length; i += 2) {
          if (event.kind === 'stored') blocks.add(`${hashes[i]}:${hashes[i + 1]}`)
          else blocks.delete(`${hashes[i]}:${hashes[i + 1]}`)
        }
      }
    },
  })
  const looks: string[] = []
  const seen: string[][] = [looks]
  for (const atMs of looksMs)
    clock.after(atMs, () => looks.push(`${atMs}: ${load} ${[...blocks].toSorted().join(' ')}`))
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

/** Between the ends of steps, which are whole nanoseconds. */
const look = fc.integer({ min: 0, max: 4000 }).map((ms) => ms + Math.PI / 10)

const call = fc.record({
  atMs: fc.integer({ min: 0, max: 2000 }),
  promptTokens: fc.integer({ min: 1, max: 300 }),
  outputTokens: fc.integer({ min: 1, max: 120 }),
  stopMs: fc.option(fc.integer({ min: 0, max: 800 }), { freq: 4 }),
})

describe('steps ahead', () => {
  it('shows the same load and the same blocks to whoever looks, at any moment', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(call, { minLength: 1, maxLength: 6 }),
        fc.array(look, { minLength: 1, maxLength: 400, size: 'max' }),
        fc.constantFrom(64, 4096),
        async (calls, looksMs, blockCount) => {
          const [ahead] = await timesOf(calls, true, blockCount, looksMs)
          const [stepwise] = await timesOf(calls, false, blockCount, looksMs)
          expect(ahead).toEqual(stepwise)
        },
      ),
      { numRuns: 60 },
    )
  })

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
