import { describe, expect, it } from 'vitest'
import { FlowMeter } from './flow-meter.ts'

/** Number of requests that arrive and are sent per 100 ms. */
function run(
  meter: FlowMeter,
  { fromMs, untilMs, come, go }: Record<'fromMs' | 'untilMs' | 'come' | 'go', number>,
): void {
  let [arrived, gone] = [0, 0]
  for (let nowMs = fromMs; nowMs < untilMs; nowMs += 100) {
    for (arrived += come; arrived >= 1 - 1e-9; arrived--) meter.arrived(nowMs)
    for (gone += go; gone >= 1 - 1e-9; gone--) meter.gone(nowMs)
  }
}

function overloadedAfter(untilMs: number, come: number, go: number): boolean {
  const meter = new FlowMeter()
  run(meter, { fromMs: 0, untilMs, come, go })
  return meter.isOverloaded(untilMs)
}

describe('FlowMeter', () => {
  it.each([
    ['as many come as go', 6000, 4, 4, false],
    ['a fifth more', 6000, 4.8, 4, false],
    ['twice as many, for less than three spans', 1400, 8, 4, false],
    ['twice as many', 2300, 8, 4, true],
    ['ten times as many', 2300, 40, 4, true],
    ['a quarter more, for two seconds', 2300, 1.4, 1.1, false],
    ['a quarter more, for ten seconds', 10_000, 1.4, 1.1, true],
    ['two a second for one that goes', 12_000, 0.2, 0.1, true],
    ['five in ten seconds for one that goes', 36_000, 0.05, 0.01, true],
    ['one a second, and it goes', 24_000, 0.1, 0.1, false],
    ['three in twelve seconds, and none goes', 36_000, 0.025, 0, false],
  ])('%s', (_, untilMs, come, go, isOverloaded) => {
    expect(overloadedAfter(untilMs, come, go)).toBe(isOverloaded)
  })

  it('a tenth more for half a minute - overload only if requests wait long', () => {
    for (const waitsLong of [false, true]) {
      const meter = new FlowMeter({ waitsLong: () => waitsLong })
      run(meter, { fromMs: 0, untilMs: 36_000, come: 4.4, go: 4 })
      expect(meter.isOverloaded(36_000)).toBe(waitsLong)
    }
  })

  it('requests wait long, and as many come as go - no overload', () => {
    const meter = new FlowMeter({ waitsLong: () => true })
    for (let i = 0; i < 200; i++) meter.arrived(0)
    for (let nowMs = 0; nowMs < 60_000; nowMs += 100) {
      run(meter, { fromMs: nowMs, untilMs: nowMs + 100, come: 4, go: 4 })
      expect(meter.isOverloaded(nowMs)).toBe(false)
    }
  })

  it('a slow pool - its rate is measured over a longer time', () => {
    const meter = new FlowMeter()
    run(meter, { fromMs: 0, untilMs: 12_000, come: 0.2, go: 0.1 })
    expect(1000 * (meter.rate(12_000) ?? 0)).toBeCloseTo(1, 0)
    expect(meter.excess(12_000)).toBeCloseTo(2, 0)
  })

  it('a burst that is worked off - no overload', () => {
    const meter = new FlowMeter()
    for (let i = 0; i < 500; i++) meter.arrived(0)
    for (let nowMs = 0; nowMs < 24_000; nowMs += 100) {
      meter.gone(nowMs)
      expect(meter.isOverloaded(nowMs)).toBe(false)
    }
  })

  it.each([50, 200, 350, 550])(
    'clients of a closed loop that all begin within %i ms - no overload, wherever the windows begin',
    (startMs) => {
      for (let fromMs = 0; fromMs < 1500; fromMs += 50) {
        const meter = new FlowMeter()
        const starts = Array.from({ length: 200 }, (_, i) => fromMs + (i * startMs) / 200)
        for (let nowMs = 0; nowMs < 12_000; nowMs += 10) {
          for (; starts[0] !== undefined && starts[0] <= nowMs; starts.shift()) meter.arrived(nowMs)
          if (nowMs < fromMs) continue
          // Each answer takes 2.4 s; the pool sends 80 requests per second.
          if (nowMs % 50 < 40) meter.gone(nowMs)
          if (nowMs >= fromMs + 2400 && nowMs % 50 < 40) meter.arrived(nowMs)
          expect(meter.isOverloaded(nowMs)).toBe(false)
        }
      }
    },
  )

  it('overload - ends with the excess, even if few requests follow', () => {
    const meter = new FlowMeter()
    run(meter, { fromMs: 0, untilMs: 6000, come: 40, go: 4 })
    expect(meter.isOverloaded(6000)).toBe(true)
    for (let nowMs = 6000; nowMs < 24_000; nowMs += 3000) {
      meter.arrived(nowMs)
      meter.gone(nowMs)
      if (nowMs > 7500) expect(meter.isOverloaded(nowMs)).toBe(false)
    }
  })

  /** Twice the capacity, then one window in which by chance as few arrive as are sent. */
  function quietWindow(waiting: number): FlowMeter {
    const meter = new FlowMeter({ waiting: () => waiting })
    run(meter, { fromMs: 0, untilMs: 6000, come: 8, go: 4 })
    run(meter, { fromMs: 6000, untilMs: 6750, come: 4, go: 4 })
    return meter
  }

  it('overload - one window without excess does not end it while requests wait', () => {
    expect(quietWindow(3).isOverloaded(6750)).toBe(true)
    expect(quietWindow(0).isOverloaded(6750)).toBe(false)
  })

  it('overload - ends after some windows without excess, even if requests always wait', () => {
    const meter = quietWindow(3)
    run(meter, { fromMs: 6750, untilMs: 12_000, come: 4, go: 4 })
    expect(meter.isOverloaded(12_000)).toBe(false)
  })

  it('clients that send as fast as their requests end - no overload, although none is sent', () => {
    let ended = 0
    const meter = new FlowMeter({ ended: () => ended })
    for (let nowMs = 0; nowMs < 6000; nowMs += 10) {
      ended++
      meter.arrived(nowMs)
      expect(meter.isOverloaded(nowMs)).toBe(false)
    }
  })
})

/** Routers of one pool; each hears what the others tell. */
function routersOf(count: number) {
  const ended = Array.from({ length: count }, () => 0)
  let nowMs = 0
  const meters: FlowMeter[] = ended.map(
    (_, own) =>
      new FlowMeter({
        ended: () => ended[own] ?? 0,
        tell: (flow) => {
          for (const [index, meter] of meters.entries()) {
            if (index !== own) meter.heard({ from: own, ...flow }, nowMs)
          }
        },
      }),
  )
  const at = (ms: number): void => {
    nowMs = ms
    for (const meter of meters) meter.isOverloaded(ms)
  }
  return { ended, meters, at }
}

describe('FlowMeter - several routers', () => {
  it('only requests of one end, and their clients send the next ones to all - no overload', () => {
    const { ended, meters, at } = routersOf(2)
    for (let i = 0; i < 50; i++) meters[i % 2]?.arrived(0)
    for (let nowMs = 0; nowMs < 6000; nowMs += 100) {
      ended[0]! += 1
      at(nowMs)
      meters[(nowMs / 100) % 2]?.arrived(nowMs)
      expect(meters.map((meter) => meter.isOverloaded(nowMs))).toEqual([false, false])
    }
  })

  it('one sends as many as arrive there, because the others refuse theirs - overload for all', () => {
    const { meters, at } = routersOf(4)
    for (let nowMs = 0; nowMs < 3000; nowMs += 100) {
      at(nowMs)
      for (const meter of meters) meter.arrived(nowMs)
      // Of two places that become free it gets one; the others get the second one in turn.
      meters[0]?.gone(nowMs)
      meters[1 + ((nowMs / 100) % 3)]?.gone(nowMs)
    }
    expect(meters.map((meter) => meter.isOverloaded(3000))).toEqual([true, true, true, true])
  })

  it('overload that another one causes - none where less than the own share arrives', () => {
    const { meters, at } = routersOf(2)
    for (let nowMs = 0; nowMs < 3000; nowMs += 100) {
      at(nowMs)
      for (let i = 0; i < 10; i++) meters[0]?.arrived(nowMs)
      meters[0]?.gone(nowMs)
      if (nowMs % 300 === 0) meters[1]?.arrived(nowMs)
      if (nowMs % 600 === 0) meters[1]?.gone(nowMs)
    }
    expect(meters.map((meter) => meter.isOverloaded(3000))).toEqual([true, false])
    // 10 and 1.7 per second are sent.
    for (const meter of meters) expect(1000 * meter.fairRate(3000)).toBeCloseTo(5.8, 0)
  })

  it('counts the routers that have requests', () => {
    const { meters, at } = routersOf(3)
    meters[0]?.arrived(0)
    meters[1]?.arrived(0)
    at(200)
    expect(meters.map((meter) => meter.routers(200))).toEqual([2, 2, 3])
    at(9000)
    expect(meters.map((meter) => meter.routers(9000))).toEqual([1, 1, 1])
  })
})
