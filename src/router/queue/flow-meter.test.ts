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

  it('requests of another router came first - its completions count by the share of requests inside the workers', () => {
    for (const [insideShare, isOverloaded] of [
      [0.5, false],
      [0.1, true],
    ] as const) {
      let othersEnded = 0
      const meter = new FlowMeter({
        othersEnded: () => othersEnded,
        insideShare: () => insideShare,
      })
      // A burst, then each client that got its answer from the other router sends here or there.
      for (let i = 0; i < 50; i++) meter.arrived(0)
      let seen = false
      for (let nowMs = 0; nowMs < 6000; nowMs += 100) {
        othersEnded++
        if (nowMs % 200 === 0) meter.arrived(nowMs)
        seen ||= meter.isOverloaded(nowMs)
      }
      expect(seen).toBe(isOverloaded)
    }
  })
})
