/** Requests that only some workers may take, beside requests that may go anywhere, in a fleet with prefill workers. */
import { describe, expect, it } from 'vitest'
import { buildModel, tokensFrom } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import type { ScriptedCall } from '../../../test/router/scripted-plane.ts'
import { randomInt, seededRandom, workerIdOf } from '../../base/index.ts'
import type { DisaggregationMode, RoutingHints, WorkerCard } from '../../request/index.ts'

const TICK_MS = 10
const TICKS = 1600
/**
 * Two prefill and two decode workers run eight requests at a time each, prefills of 50 to 150 ms and decodes of 50 to 330: the
 * fleet completes about 84 per second, and decode legs wait now and then.
 */
const PREFILL_TICKS = { from: 5, to: 15 }
const DECODE_TICKS = { from: 5, to: 33 }

const worker = (id: number, mode: DisaggregationMode, taint: string): WorkerCard =>
  card(id, mode, { taints: [taint], engine: { maxNumSeqs: 8 } })

const HINTS = {
  urgent: { strictPriority: 5 },
  plain: {},
  pinned: { prefillWorkerId: workerIdOf(1), decodeWorkerId: workerIdOf(3) },
  tainted: { requiredTaints: ['gold'] },
} as const satisfies Readonly<Record<string, RoutingHints>>
type Kind = keyof typeof HINTS

/** Sends 200 requests per second, the kinds in turn; by kind: how many were sent, completed and refused, and the median wait for a prefill. */
function overloaded(kinds: readonly Kind[]) {
  const { plane, clock, send } = buildModel([
    worker(1, 'prefill', 'silver'),
    worker(2, 'prefill', 'gold'),
    worker(3, 'decode', 'silver'),
    worker(4, 'decode', 'gold'),
  ])
  const sent = kinds.map(() => [] as ReturnType<typeof send>[])
  const random = seededRandom(1)
  const running: { readonly call: ScriptedCall; readonly dueTick: number }[] = []
  let [requests, seen] = [0, 0]
  for (let tick = 0; tick < TICKS; tick++) {
    for (let n = 0; n < 2; n++) {
      const kind = requests % kinds.length
      const tokens = tokensFrom(1000 * requests++, 16)
      sent[kind]?.push(send(HINTS[kinds[kind] as Kind], tokens))
    }
    for (; seen < plane.calls.length; seen++) {
      const call = plane.call(seen)
      const { from, to } = isPrefill(call) ? PREFILL_TICKS : DECODE_TICKS
      running.push({ call, dueTick: tick + from + randomInt(random, to - from + 1) })
    }
    for (const { call } of running.filter(({ dueTick }) => dueTick === tick)) {
      if (isPrefill(call)) call.prefilled()
      else call.finish()
    }
    clock.advance(TICK_MS)
  }
  return sent.map((all) => ({
    sent: all.length,
    completed: all.filter(({ sink }) => sink.finish !== undefined).length,
    failed: all.filter(({ sink }) => sink.errors.length > 0).length,
    queuedMs: medianOf(
      all.flatMap(({ sink }) => sink.routed.slice(0, 1)).map((leg) => leg.queuedMs),
    ),
  }))
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
}

const isPrefill = ({ workerId }: ScriptedCall): boolean => workerId <= workerIdOf(2)

describe('under overload', () => {
  it('urgent requests that may go anywhere - lose nothing to others that are bound to a worker', () => {
    const [urgent, ...others] = overloaded(['urgent', 'pinned', 'tainted', 'plain'])
    expect(urgent).toMatchObject({ sent: 800, failed: 0 })
    expect(urgent?.completed).toBeGreaterThan(760)
    expect(urgent?.queuedMs).toBeLessThan(100)
    // The rest of the capacity goes to all others.
    for (const { completed } of others) expect(completed).toBeGreaterThan(200)
    expect(others.reduce((sum, { completed }) => sum + completed, 0)).toBeGreaterThan(1000)
  })

  it('pinned and free requests of one priority - both are served', () => {
    const [urgent, pinned, plain] = overloaded(['urgent', 'pinned', 'plain'])
    expect(urgent?.failed).toBe(0)
    expect(pinned?.completed).toBeGreaterThan(200)
    expect(plain?.completed).toBeGreaterThan(200)
  })

  it('too many pinned requests - the workers that they do not name serve the others', () => {
    const [pinned, , , plain] = overloaded(['pinned', 'pinned', 'pinned', 'plain'])
    expect(pinned?.completed).toBeGreaterThan(100)
    expect(plain?.completed).toBeGreaterThan(600)
  })
})

/**
 * One decode worker that takes three requests, beside too many requests that only the aggregated workers may take. Returns how
 * many of the former are completed, and how many wait in the decode pool at most. Times are in ticks.
 */
function mixedPool(fleet: { aggregated: number; maxNumSeqs: number }, times: readonly number[]) {
  const { aggregated, maxNumSeqs } = fleet
  const [prefillTicks = 1, decodeTicks = 1] = times
  const { plane, clock, send, router } = buildModel(
    [
      card(1, 'prefill', { engine: { maxNumSeqs: 100 } }),
      card(2, 'decode', { engine: { maxNumSeqs: 2 } }),
      ...Array.from({ length: aggregated }, (_, i) =>
        card(3 + i, 'agg', { taints: ['gold'], engine: { maxNumSeqs } }),
      ),
    ],
    { engineQueue: 1 },
  )
  const due: (() => void)[][] = []
  const plain: ReturnType<typeof send>[] = []
  let [requests, seen, computed] = [0, 0, 0]
  for (let tick = 0; tick < 1000; tick++) {
    if (tick % 4 === 0) plain.push(send({}, tokensFrom(1000 * requests++, 16)))
    send(HINTS.tainted, tokensFrom(1000 * requests++, 16))
    for (; seen < plane.calls.length; seen++) {
      const call = plane.call(seen)
      const isFirst = call.workerId === workerIdOf(1)
      const ticks = isFirst ? prefillTicks : call.workerId === workerIdOf(2) ? decodeTicks : 10
      const end = () => (isFirst ? call.prefilled() : call.finish())
      ;(due[tick + ticks] ??= []).push(end)
    }
    for (const end of due[tick] ?? []) end()
    clock.advance(TICK_MS)
    computed = Math.max(computed, router.status().decode.queuedRequests)
  }
  const completed = plain.filter(({ sink }) => sink.finish !== undefined).length
  return { completed, computed }
}

describe('aggregated workers beside decode workers', () => {
  it('what they complete starts no prefills that then wait for decode', () => {
    const { completed, computed } = mixedPool({ aggregated: 4, maxNumSeqs: 8 }, [50, 20])
    expect(completed).toBeGreaterThan(110)
    expect(computed).toBeLessThan(15)
  })

  it('what waits for them keeps no prefills back', () => {
    const { completed } = mixedPool({ aggregated: 1, maxNumSeqs: 2 }, [100, 10])
    expect(completed).toBeGreaterThan(200)
  })
})

it.each([3, 7])(
  'bound requests on all places of %d workers - the rounding of their parts is no place for others',
  (count) => {
    const engine = { maxNumSeqs: 1 }
    const gold = Array.from({ length: count }, (_, i) =>
      card(2 + i, 'decode', { taints: ['gold'], engine }),
    )
    const { plane, send } = buildModel(
      [card(1, 'prefill', { taints: ['gold'] }), ...gold, card(100, 'decode', { engine })],
      { engineQueue: 1 },
    )
    let requests = 0
    const sendMany = (hints: RoutingHints) => {
      for (let n = 0; n < 2 * count + 4; n++) send(hints, tokensFrom(1000 * requests++, 16))
      return plane.calls.length
    }
    expect([sendMany(HINTS.tainted), sendMany(HINTS.plain)]).toEqual([2 * count, 2 * count + 2])
  },
)
