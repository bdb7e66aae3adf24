import { describe, expect, it } from 'vitest'
import type { FrontendEvent, FrontendEventOf } from '../src/frontend/index.ts'
import { SmallFleet } from './frontend/small-fleet.ts'

const SPLIT = [
  { id: 11, mode: 'prefill' },
  { id: 21, mode: 'decode' },
] as const

const told = (fleet: SmallFleet): string[] =>
  fleet.events.map((event) => ('phase' in event ? `${event.kind} ${event.phase}` : event.kind))

function all<Kind extends FrontendEvent['kind']>(fleet: SmallFleet, kind: Kind) {
  return fleet.events.filter((event): event is FrontendEventOf<Kind> => event.kind === kind)
}

/** Everything after the frontend's HTTP server is real; time is virtual, so that durations are exact. */
describe('phase events', () => {
  it('aggregated - every phase is reported once, in order', async () => {
    const fleet = await SmallFleet.start([{ id: 1 }])
    await fleet.ask({ max_tokens: 3 })
    expect(told(fleet)).toEqual([
      'received',
      'tokenised',
      'prefillQueued aggregated',
      'routed aggregated',
      'prefillStarted aggregated',
      'prefillDone aggregated',
      'firstToken',
      'ended',
    ])
  })

  it('disaggregated - both legs are reported, and the decode leg waits for the prefill', async () => {
    const fleet = await SmallFleet.start(SPLIT)
    await fleet.ask({ max_tokens: 3 })
    expect(told(fleet)).toEqual([
      'received',
      'tokenised',
      'prefillQueued prefill',
      'routed prefill',
      'prefillStarted prefill',
      'prefillDone prefill',
      'decodeQueued decode',
      'routed decode',
      'decodeStarted decode',
      'firstToken',
      'ended',
    ])
    const times = fleet.events.map((event) => ('atMs' in event ? event.atMs : 0))
    expect(times).toEqual(times.toSorted((a, b) => a - b))
  })

  it('durations - engine time and queue time are separate and add up to the total', async () => {
    const fleet = await SmallFleet.start([{ id: 1, sim: { maxSequences: 1 } }])
    await fleet.clock.runUntil(
      Promise.all([1, 2].map((n) => fleet.send({ max_tokens: 4 }, { 'x-request-id': `r${n}` }))),
    )
    const started = all(fleet, 'prefillStarted')
    const done = all(fleet, 'prefillDone')
    expect(started.map((event) => event.queuedMs > 0)).toEqual([false, true])
    const routed = all(fleet, 'routed')
    for (const [i, event] of done.entries()) {
      expect(event.elapsedMs).toBeGreaterThan(0)
      const whole = (started[i]?.queuedMs ?? 0) + event.elapsedMs
      expect(event.atMs - (routed[i]?.atMs ?? 0)).toBeCloseTo(whole, 6)
    }
  })

  it('the final event - has the same time to first token as the event before', async () => {
    const fleet = await SmallFleet.start([{ id: 1 }])
    await fleet.ask({ max_tokens: 3 })
    const [end] = all(fleet, 'ended')
    expect(all(fleet, 'firstToken').map((event) => event.elapsedMs)).toEqual([end?.ttftMs])
  })
})
