/** Two frontends with one store, each with a clock of its own. */
import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../../test/router/manual-clock.ts'
import { until } from '../../../test/until.ts'
import { callerOf, OPEN_CALLER } from '../access/caller.ts'
import { BackgroundResponses } from './background-responses.ts'
import { EventLog } from './event-log.ts'
import { MemoryStateStore } from './state-store.ts'
import { StoredResponses } from './stored-responses.ts'

const ID = 'resp_a'
const HOUR_MS = 3_600_000

class SteppedClock extends ManualClock {
  steppedMs = 0

  override epochMs(): number {
    return super.epochMs() + this.steppedMs
  }
}

function scene() {
  const clock = new SteppedClock()
  const store = new MemoryStateStore({ clock, ttlMs: HOUR_MS, bytesMax: 1024 * 1024 })
  const stored = new StoredResponses(store, OPEN_CALLER)
  const owner = new BackgroundResponses(clock)
  let end: () => void = () => undefined
  const work = () => new Promise<void>((resolve) => (end = resolve))
  owner.begin(ID, stored, work, () => undefined)
  return { clock, store, stored, owner, end: () => end() }
}

describe('BackgroundResponses', () => {
  it.each([['forwards', HOUR_MS] as const, ['backwards', -HOUR_MS] as const])(
    'the wall clock steps %s - a response that runs on is alive all the time for another frontend',
    (_, stepMs) => {
      const { clock, stored } = scene()
      const reader = new BackgroundResponses(clock)
      const seen = [reader.isAlive(ID, stored)]
      for (const steppedMs of [stepMs, 0]) {
        clock.steppedMs = steppedMs
        for (let i = 0; i < 300; i++) {
          seen.push(reader.isAlive(ID, stored))
          clock.advance(100)
        }
      }
      expect(new Set(seen)).toEqual(new Set([true]))
    },
  )

  it('a frontend that has died - its response is lost after 15 s without a change, whatever the wall clock says', async () => {
    const { clock, stored, owner, end } = scene()
    const reader = new BackgroundResponses(clock)
    expect(reader.isAlive(ID, stored)).toBe(true)
    end()
    await until('nothing is renewed any more', () => owner.size === 0)
    clock.steppedMs = -HOUR_MS
    clock.advance(14_000)
    expect(reader.isAlive(ID, stored)).toBe(true)
    clock.advance(2_000)
    expect(reader.isAlive(ID, stored)).toBe(false)
    // However seldom it is asked.
    clock.advance(HOUR_MS / 2)
    expect(reader.isAlive(ID, stored)).toBe(false)
    // One that has just started has seen nothing yet.
    expect(new BackgroundResponses(clock).isAlive(ID, stored)).toBe(true)
  })

  it('two tenants with one id of a response - see, cancel and end only their own', async () => {
    const { store, stored, owner } = scene()
    const others = new StoredResponses(store, callerOf({ id: 'k', tenant: 'other' }))
    expect(owner.isAlive(ID, others)).toBe(false)
    const events = new EventLog(stored, 'resp_b')
    const cancelled: string[] = []
    const begin = (whose: StoredResponses, name: string, log?: EventLog): void => {
      const work = (signal: AbortSignal) =>
        new Promise<void>((resolve) => {
          signal.addEventListener('abort', () => {
            cancelled.push(name)
            resolve()
          })
        })
      owner.begin('resp_b', whose, work, () => undefined, log)
    }
    begin(stored, 'mine', events)
    begin(others, 'other')
    expect(owner.eventsOf('resp_b', others)).toBeUndefined()
    owner.cancel('resp_b', others)
    await until('it has ended', () => owner.size === 2)
    expect(cancelled).toEqual(['other'])
    expect(owner.eventsOf('resp_b', stored)).toBe(events)
  })
})
