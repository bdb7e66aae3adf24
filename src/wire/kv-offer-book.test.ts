import { describe, expect, it } from 'vitest'

import { BatonError, randomInt, seededRandom } from '../base/index.ts'
import type { Clock } from '../base/index.ts'
import { KvOfferBook } from './kv-offer-book.ts'

/** A clock that the test advances. */
class TestClock implements Clock {
  #now = 0
  #timers: { at: number; fire: () => void }[] = []

  nowMs(): number {
    return this.#now
  }

  epochMs(): number {
    return this.#now
  }

  after(delayMs: number, fire: () => void): { cancel(): void } {
    const timer = { at: this.#now + delayMs, fire }
    this.#timers.push(timer)
    return { cancel: () => void (this.#timers = this.#timers.filter((other) => other !== timer)) }
  }

  get timerCount(): number {
    return this.#timers.length
  }

  advance(ms: number): void {
    this.#now += ms
    for (;;) {
      const due = this.#timers.filter((timer) => timer.at <= this.#now)
      if (due.length === 0) return
      this.#timers = this.#timers.filter((timer) => timer.at > this.#now)
      for (const { fire } of due) fire()
    }
  }
}

const ADDRESS = { host: 'h', port: 1 }
const SOURCE = { fingerprint: 'f', blockTokens: 16, get: () => undefined }

function setup(offersMax = 1_000) {
  const clock = new TestClock()
  let ids = 0
  const book = new KvOfferBook({
    clock,
    createOfferId: () => `o${++ids}`,
    leaseMs: 1_000,
    graceMs: 100,
    offersMax,
  })
  const pins = { open: 0, double: 0 }
  const offer = (kvBytes = 10, onReleased?: (why: string) => void) => {
    let isReleased = false
    pins.open += 1
    const release = (): void => {
      if (isReleased) pins.double += 1
      else pins.open -= 1
      isReleased = true
    }
    const pin = { tokenCount: 16, blockKeys: Uint32Array.of(1, 2), kvBytes, release }
    return book.offer(ADDRESS, pin, SOURCE, onReleased ? { onReleased } : {}).offerId
  }
  return { clock, book, pins, offer }
}

describe('KV offer book', () => {
  it('lease - ends an offer without progress; progress renews it', () => {
    const { clock, book, pins, offer } = setup()
    const [idle, active] = [offer(), offer()]
    clock.advance(900)
    book.touch(active)
    clock.advance(200)
    expect([book.get(idle), book.get(active)?.offerId]).toEqual([undefined, active])
    clock.advance(1_000)
    expect([pins.open, book.heldBytes, clock.timerCount]).toEqual([0, 0, 0])
    expect(book.stats.released['lease-ended']).toBe(2)
  })

  it('a lost puller - may reconnect within the grace period, not the whole lease', () => {
    const { clock, book, offer } = setup()
    const reasons: string[] = []
    const note = (why: string): void => void reasons.push(why)
    const [gone, back] = [offer(1, note), offer(1, note)]
    book.pullerLost(gone)
    book.pullerLost(back)
    clock.advance(50)
    book.touch(back)
    clock.advance(60)
    expect(reasons).toEqual(['puller-died'])
    clock.advance(1_000)
    expect(reasons).toEqual(['puller-died', 'lease-ended'])
  })

  it('beyond the limit - refuses and releases the pin', () => {
    const { book, pins, offer } = setup(2)
    offer()
    offer()
    expect(() => offer()).toThrow(BatonError)
    expect([pins.open, book.count]).toEqual([2, 2])
  })

  it('10,000 transfers with random failures - every pin is released exactly once', () => {
    const seed = Date.now() % 1e9
    const random = seededRandom(seed)
    const { clock, book, pins, offer } = setup(100_000)
    const live: string[] = []
    for (let i = 0; i < 10_000; i++) {
      live.push(offer(randomInt(random, 1_000)))
      const id = live[randomInt(random, live.length)] ?? ''
      const actions = [
        () => book.touch(id, 5, 1),
        () => book.release(id, 'acknowledged'),
        () => book.release(id, 'abandoned'),
        () => book.release(id, 'withdrawn'),
        () => book.pullerLost(id),
        () => clock.advance(randomInt(random, 200)),
        () => undefined,
      ]
      actions[randomInt(random, actions.length)]?.()
      if (i % 3_000 === 2_999) book.releaseAll('closed')
    }
    clock.advance(10_000)
    expect([pins.open, pins.double, book.heldBytes, clock.timerCount], `seed ${seed}`).toEqual([
      0, 0, 0, 0,
    ])
    const total = Object.values(book.stats.released).reduce((sum, count) => sum + count, 0)
    expect(total).toBe(10_000)
  })
})
