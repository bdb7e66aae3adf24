import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../sim/index.ts'
import type { HttpStream } from '../http/http-exchange.ts'
import type { FleetView } from './fleet-view.ts'
import { LiveFeed, READERS_MAX } from './live-feed.ts'
import { RequestLog } from './request-log.ts'

const facts = {
  requestId: 'r1',
  model: 'm',
  endpoint: 'completions',
  streamed: true,
  traceparent: undefined,
} as const

function start() {
  const clock = new VirtualClock()
  const log = new RequestLog(clock)
  let made = 0
  const fleet = (): FleetView => {
    made++
    return { models: [] } as unknown as FleetView
  }
  const feed = new LiveFeed({ clock, log, fleet })
  return { clock, log, feed, fleetsMade: () => made }
}

class Reader {
  readonly left = new AbortController()
  text = ''
  ended = false

  constructor(feed: LiveFeed) {
    const { body } = feed.open(this.left.signal)
    ;(body as HttpStream).open({
      write: (text) => void (this.text += text),
      end: () => void (this.ended = true),
    })
  }

  get events(): string[] {
    return [...this.text.matchAll(/^event: (\w+)$/gm)].map((match) => match[1] ?? '')
  }
}

function advance(clock: VirtualClock, untilMs: number): void {
  clock.after(untilMs - clock.nowMs(), () => undefined)
  while (clock.fireNext(untilMs));
}

describe('GET /debug/events', () => {
  it('a new reader - gets the fleet and the last requests at once, then the changes', () => {
    const { clock, log, feed } = start()
    const reader = new Reader(feed)
    expect(reader.events).toEqual(['fleet', 'requests'])
    advance(clock, 400)
    log.observe({ kind: 'received', atMs: 400 }, facts)
    advance(clock, 500)
    expect(reader.events).toEqual(['fleet', 'requests', 'requests'])
    expect(reader.text).toContain('"requestId":"r1"')
    advance(clock, 1000)
    expect(reader.events.slice(3)).toEqual(['fleet'])
  })

  it('no reader - nothing is computed, and no timer runs', () => {
    const { clock, feed, fleetsMade } = start()
    const reader = new Reader(feed)
    reader.left.abort()
    advance(clock, 60_000)
    expect(fleetsMade()).toBe(1)
    expect(new Reader(feed).events).toEqual(['fleet', 'requests'])
  })

  it('the largest number of readers - one more is refused until a reader has left', () => {
    const { feed } = start()
    const readers = Array.from({ length: READERS_MAX }, () => new Reader(feed))
    expect(() => new Reader(feed)).toThrow('readers')
    readers[0]?.left.abort()
    expect(() => new Reader(feed)).not.toThrow()
  })

  it('the end of the service - ends every stream, and a late reader at once', () => {
    const { feed } = start()
    const reader = new Reader(feed)
    feed.close()
    expect([reader.ended, new Reader(feed).ended]).toEqual([true, true])
  })
})
