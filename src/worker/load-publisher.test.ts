import { describe, expect, it } from 'vitest'
import type { LoadReport } from '../kv/index.ts'
import { VirtualClock } from '../sim/index.ts'
import { LoadPublisher } from './load-publisher.ts'

const report = (runningRequests: number, dpRank = 0): LoadReport => ({
  dpRank,
  activeBlocks: 0,
  totalBlocks: 10,
  runningRequests,
  queuedRequests: 0,
  prefillTokensInFlight: 0,
})

function publisher(): { clock: VirtualClock; sent: LoadReport[]; load: LoadPublisher } {
  const clock = new VirtualClock()
  const sent: LoadReport[] = []
  return { clock, sent, load: new LoadPublisher(clock, 10, (one) => sent.push(one)) }
}

describe('LoadPublisher - thinning out', () => {
  it('the first report of a rank - goes at once', () => {
    const { sent, load } = publisher()
    load.publish(report(1))
    load.publish(report(1, 1))
    expect(sent).toEqual([report(1), report(1, 1)])
  })

  it('many within an interval - only the newest goes, at its end', async () => {
    const { clock, sent, load } = publisher()
    for (const count of [1, 2, 3, 4]) load.publish(report(count))
    expect(sent).toEqual([report(1)])
    await clock.run()
    expect(sent).toEqual([report(1), report(4)])
    expect(clock.nowMs()).toBe(10)
  })

  it('nothing new - is not repeated, and what changes next goes at once', async () => {
    const { clock, sent, load } = publisher()
    load.publish(report(1))
    load.publish(report(2))
    load.publish(report(1))
    await clock.run(50)
    expect(sent).toEqual([report(1)])
    load.publish(report(2))
    expect(sent).toEqual([report(1), report(2)])
  })

  it('close - sends nothing more', async () => {
    const { clock, sent, load } = publisher()
    load.publish(report(1))
    load.publish(report(2))
    load.close()
    await clock.run()
    expect(sent).toEqual([report(1)])
  })
})
