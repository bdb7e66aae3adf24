/** When requests are sent: at their times, a fixed number at once, and after the previous turn. */
import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../clock/virtual-clock.ts'
import type { TraceRequest } from '../trace/trace-request.ts'
import { LoadSource } from './load-source.ts'

const SERVED_MS = 100

async function sentAt(
  trace: Partial<TraceRequest>[],
  concurrency: number | null,
): Promise<number[]> {
  const clock = new VirtualClock()
  const sent: number[] = []
  const source: LoadSource = new LoadSource({
    clock,
    trace: trace.map((part) => ({
      atMs: 0,
      inputTokens: 1,
      outputTokens: 1,
      hashIds: [1],
      ...part,
    })),
    concurrency,
    send: (index) => {
      sent[index] = clock.nowMs()
      clock.after(SERVED_MS, () => source.ended(index))
    },
  })
  source.start()
  await clock.run()
  return sent
}

describe('LoadSource', () => {
  it('open loop - at the times of the trace, whatever the order of its lines', async () => {
    expect(await sentAt([{ atMs: 30 }, { atMs: 10 }, { atMs: 10 }], null)).toEqual([30, 10, 10])
  })

  it('closed loop - a fixed number at once, whatever the times', async () => {
    const trace = [{ atMs: 0 }, { atMs: 900 }, { atMs: 901 }, { atMs: 902 }, { atMs: 903 }]
    expect(await sentAt(trace, 2)).toEqual([0, 0, 100, 100, 200])
    expect(await sentAt(trace, 99)).toEqual([0, 0, 0, 0, 0])
  })

  it('a turn - follows the end of the previous turn after its delay', async () => {
    const trace = [{ atMs: 5 }, { after: 0, delayMs: 40 }, { after: 1 }]
    expect(await sentAt(trace, null)).toEqual([5, 145, 245])
    expect(await sentAt([...trace, { atMs: 6 }], 1)).toEqual([0, 140, 240, 340])
  })

  it('a graph - a request follows the sending or the end of others, when all of them allow it', async () => {
    const trace: Partial<TraceRequest>[] = [
      { atMs: 10 },
      { waitsFor: [{ request: 0, on: 'sent', delayMs: 5 }] },
      {
        waitsFor: [
          { request: 0, on: 'ended', delayMs: 1 },
          { request: 1, on: 'ended', delayMs: 1 },
        ],
      },
      { atMs: 500, waitsFor: [{ request: 0, on: 'ended', delayMs: 0 }] },
    ]
    expect(await sentAt(trace, null)).toEqual([10, 15, 116, 500])
    // Closed loop: the whole graph uses one place, and times are ignored.
    expect(await sentAt([...trace, { atMs: 11 }], 1)).toEqual([0, 5, 106, 100, 206])
  })
})
