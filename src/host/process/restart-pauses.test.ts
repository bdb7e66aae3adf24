import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../sim/index.ts'
import { RestartPauses } from './restart-pauses.ts'

describe('RestartPauses', () => {
  it('failures in a row - at once, then a pause that doubles from 1 s to 60 s and stays there', () => {
    const pauses = new RestartPauses(new VirtualClock())
    const waited = Array.from({ length: 10 }, () => pauses.failed() / 1000)
    expect(waited).toEqual([0, 1, 2, 4, 8, 16, 32, 60, 60, 60])
    for (let further = 0; further < 2_000; further++) expect(pauses.failed()).toBe(60_000)
  })

  it('a time of service - the next failure counts as the first; a death right after a start does not', async () => {
    const clock = new VirtualClock()
    const pauses = new RestartPauses(clock)
    pauses.failed()
    pauses.failed()
    pauses.served()
    await clock.run(clock.nowMs() + 9_999)
    expect(pauses.failed()).toBe(2_000)
    pauses.served()
    await clock.run(clock.nowMs() + 10_000)
    expect([pauses.failed(), pauses.failures]).toEqual([0, 1])
    // The time since then was no service.
    await clock.run(clock.nowMs() + 60_000)
    expect(pauses.failed()).toBe(1_000)
  })
})
