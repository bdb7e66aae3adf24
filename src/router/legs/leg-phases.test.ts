import { describe, expect, it } from 'vitest'
import { buildModel, PD } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import type { LegStart } from '../../request/index.ts'

const TRANSFER = { elapsedMs: 4, bytes: 100, blocksPulled: 2, blocksHeld: 1, recomputed: false }

function toldAfter(started: unknown): readonly unknown[] {
  const { plane, send, clock } = buildModel([card(1)])
  const { sink } = send()
  clock.advance(20)
  plane.call(0).sink.onChunk({ tokenIds: [], started: started as LegStart })
  plane.call(0).token(5)
  expect(sink.tokens).toEqual([5])
  return sink.phases.slice(2)
}

describe('Leg: phases', () => {
  it("times measured by the worker - start and transfer are reported on this process's clock", () => {
    const now = 20
    const told = toldAfter({ queuedMs: 3, computeMs: 10, transfer: TRANSFER })
    expect(told).toMatchObject([
      { kind: 'kvTransferred', bytes: 100, elapsedMs: 4 },
      { kind: 'prefillStarted', queuedMs: 20 - 10 - 4 },
      { kind: 'prefillDone', elapsedMs: 10 },
    ])
    expect((told.at(-1) as { atMs: number }).atMs).toBeGreaterThanOrEqual(now)
  })

  it.each([
    ['nothing', undefined],
    ['no numbers', { queuedMs: 'x', computeMs: Number.NaN }],
    ['a negative time', { queuedMs: 0, computeMs: -1 }],
    ['a transfer without bytes', { queuedMs: 0, computeMs: 1, transfer: { recomputed: true } }],
  ])('a worker that tells %s - has begun when it was sent to', (_, started) => {
    expect(toldAfter(started)).toMatchObject([
      { kind: 'prefillStarted', queuedMs: 0 },
      { kind: 'prefillDone', elapsedMs: 20 },
    ])
  })

  it('a worker that reports more time than has passed - is limited to that', () => {
    expect(toldAfter({ queuedMs: 9, computeMs: 1000 })).toMatchObject([
      { kind: 'prefillStarted', queuedMs: 0 },
      { kind: 'prefillDone', elapsedMs: 20 },
    ])
  })

  it('a prefill leg that ends without a token - has computed its prompt', () => {
    const { plane, send } = buildModel(PD)
    const { sink } = send()
    plane.call(0).sink.onChunk({ tokenIds: [], started: { queuedMs: 1, computeMs: 2 } })
    plane.call(0).prefilled({ engineParams: { x: 1 } })
    expect(sink.phases.map(({ kind }) => kind)).toContain('prefillDone')
  })
})
