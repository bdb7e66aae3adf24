import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import { OpenLimit } from './open-limit.ts'
import type { OpenRequest } from './open-limit.ts'

const QUEUE = 4

/** No other router sends to the rank. */
const alone = (others: number) => ({ others, peers: 0, arePeersOpen: false })

/** A request inside a rank: when it is computed, and what the router books about it. */
interface Inside {
  readonly open: OpenRequest
  readonly workMs: number
  readonly onAnswer: () => void
}

/** When the requests of a rank have their first token, or their whole answer. */
interface Rank {
  add(request: Inside, nowMs: number): void
}

class Events {
  nowMs = 0
  readonly #due: { atMs: number; run: () => void }[] = []

  at(atMs: number, run: () => void): void {
    let place = this.#due.length
    while (place > 0 && (this.#due[place - 1]?.atMs ?? 0) > atMs) place--
    this.#due.splice(place, 0, { atMs, run })
  }

  runUntil(endMs: number): void {
    while ((this.#due[0]?.atMs ?? Infinity) <= endMs) {
      const next = this.#due.shift()
      this.nowMs = next?.atMs ?? endMs
      next?.run()
    }
    this.nowMs = endMs
  }
}

/** Runs at most `places` requests at once, each for its own time; the rest waits in order of arrival. */
class Places implements Rank {
  readonly #events: Events
  readonly #places: number
  readonly #waiting: Inside[] = []
  readonly #firstMs: number
  #running = 0

  /** `firstMs`: a request has its first token after this time in its place; null: at its end. */
  constructor(events: Events, places: number, firstMs: number | null = null) {
    this.#events = events
    this.#places = places
    this.#firstMs = firstMs ?? Infinity
  }

  add(request: Inside): void {
    this.#waiting.push(request)
    this.#start()
  }

  #start(): void {
    while (this.#running < this.#places && this.#waiting.length > 0) {
      const { workMs, onAnswer } = this.#waiting.shift() as Inside
      this.#running++
      const { nowMs } = this.#events
      this.#events.at(nowMs + Math.min(workMs, this.#firstMs), onAnswer)
      this.#events.at(nowMs + workMs, () => {
        this.#running--
        this.#start()
      })
    }
  }
}

interface LoadOptions {
  readonly rank: (events: Events) => Rank
  /** Requests per second from the start of each phase on. */
  readonly phases: readonly (readonly [fromSeconds: number, perSecond: number])[]
  readonly seconds: number
  readonly workMs: (random: Random, nowMs: number) => number
  readonly tokens?: (random: Random) => number
  readonly isWhole?: boolean
  readonly seed?: number
}

/** Poisson arrivals at a rank whose router holds back what the limit does not let in. */
function run(options: LoadOptions) {
  const { phases, seconds, workMs, tokens = () => 100, isWhole = false, seed = 1 } = options
  const events = new Events()
  const random = seededRandom(seed)
  const rank = options.rank(events)
  const limit = new OpenLimit(QUEUE)
  const held: { readonly atMs: number; readonly work: number; readonly size: number }[] = []
  const answers: { readonly atMs: number; readonly insideMs: number }[] = []
  let heldMost = 0
  const pass = (): void => {
    while (held.length > 0 && limit.open < limit.max) {
      const { work, size } = held.shift()!
      const { nowMs } = events
      const open = limit.sent(size, isWhole, alone(limit.open), nowMs)
      const onAnswer = (): void => {
        limit.answered(open, events.nowMs)
        answers.push({ atMs: events.nowMs, insideMs: events.nowMs - nowMs })
        pass()
      }
      rank.add({ open, workMs: work, onAnswer }, nowMs)
    }
    heldMost = Math.max(heldMost, held.length)
  }
  const rateAt = (ms: number): number =>
    phases.findLast(([from]) => 1000 * from <= ms)?.[1] ?? Number.MIN_VALUE
  const arrive = (): void => {
    const { nowMs } = events
    held.push({ atMs: nowMs, work: workMs(random, nowMs), size: tokens(random) })
    pass()
    events.at(nowMs + (-1000 * Math.log(1 - random.next())) / rateAt(nowMs), arrive)
  }
  events.at(0, arrive)
  events.runUntil(1000 * seconds)
  const since = (fromSeconds: number) => answers.filter(({ atMs }) => atMs >= 1000 * fromSeconds)
  return {
    limit,
    heldMost,
    perSecond: (from: number) => since(from).length / (seconds - from),
    insideMs: (from: number) => Math.max(...since(from).map((answer) => answer.insideMs)),
  }
}

const even =
  (least: number, most: number) =>
  (random: Random): number =>
    least + (most - least) * random.next()

describe('a rank that runs few requests at once', () => {
  it.each([
    ['fast', 4, 10, even(200, 600), 10, 2000],
    ['slow', 4, 100, even(4000, 12_000), 0.5, 40_000],
    ['one at a time', 1, 50, even(50, 150), 10, 2000],
  ] as const)(
    '%s, ten times its capacity - stays busy, and no request waits long inside',
    (_, places, firstMs, workMs, capacity, insideMs) => {
      const seconds = 60 * Math.max(1, 10 / capacity)
      const load = run({
        rank: (events) => new Places(events, places, firstMs),
        phases: [[0, 10 * capacity]],
        seconds,
        workMs,
      })
      expect(load.perSecond(seconds / 2)).toBeGreaterThan(0.95 * capacity)
      expect(load.insideMs(seconds / 2)).toBeLessThan(insideMs)
    },
  )

  it('twice its capacity for a quarter of an hour - the waits inside do not grow', () => {
    for (let seed = 1; seed <= 5; seed++) {
      const load = run({
        rank: (events) => new Places(events, 16, 50),
        phases: [
          [0, 0.3],
          [100, 3.2],
        ],
        seconds: 1000,
        workMs: even(5000, 15_000),
        seed,
      })
      expect(load.perSecond(500), `seed ${seed}`).toBeGreaterThan(1.5)
      expect(load.insideMs(500), `seed ${seed}`).toBeLessThan(20_000)
    }
  })

  it('the first request loads the model - those sent after that do not wait long inside', () => {
    const load = run({
      rank: (events) => {
        const places = new Places(events, 4)
        const start = (request: Inside): void => places.add(request)
        return {
          add: (request) => events.at(Math.max(events.nowMs, 20_000), () => start(request)),
        }
      },
      phases: [[0, 60]],
      seconds: 180,
      workMs: even(150, 250),
    })
    expect(load.perSecond(90)).toBeGreaterThan(19)
    // Until 80 s those are answered that were sent before the first answer.
    expect(load.insideMs(85)).toBeLessThan(2000)
  })

  it('answers without a visible first token - the same', () => {
    const load = run({
      rank: (events) => new Places(events, 4),
      phases: [
        [0, 2],
        [20, 100],
      ],
      seconds: 100,
      workMs: even(200, 600),
      isWhole: true,
    })
    expect(load.perSecond(50)).toBeGreaterThan(9.5)
    expect(load.insideMs(50)).toBeLessThan(4000)
  })

  it('a limit that was not needed for a while - is forgotten', () => {
    const { limit } = run({
      rank: (events) => new Places(events, 4, 10),
      phases: [
        [0, 100],
        [10, 1],
      ],
      seconds: 200,
      workMs: even(200, 600),
    })
    expect(limit.max).toBe(Infinity)
  })
})

describe('a rank without a limit', () => {
  const parallel = (events: Events) => new Places(events, Infinity)

  it.each([
    ['5 s per first token', even(5000, 5000), false],
    ['2 to 8 s per first token', even(2000, 8000), false],
    ['2 to 8 s per answer', even(2000, 8000), true],
    [
      'answers of very different lengths',
      (random: Random) => -2000 * Math.log(1 - random.next()),
      true,
    ],
  ] as const)(
    '%s - nothing is held back, also when the load rises at once',
    (_, workMs, isWhole) => {
      for (let seed = 1; seed <= 5; seed++) {
        const load = run({
          rank: parallel,
          phases: [
            [0, 0.2],
            [120, 20],
            [150, 2],
            [180, 40],
          ],
          seconds: 240,
          workMs,
          isWhole,
          seed,
        })
        expect(load.heldMost, `seed ${seed}`).toBeLessThanOrEqual(1)
      }
    },
  )

  it.each([
    ['0.2 to 5 s per answer', even(200, 5000), true],
    ['0.3 to 8 s per first token', even(300, 8000), false],
    ['one in ten takes 50 times as long', (r: Random) => (r.next() < 0.1 ? 10_000 : 200), true],
    ['the same, per first token', (r: Random) => (r.next() < 0.1 ? 10_000 : 200), false],
  ] as const)('%s, and never alone - next to nothing is held back', (_, workMs, isWhole) => {
    for (let seed = 1; seed <= 20; seed++) {
      const load = run({
        rank: parallel,
        phases: [[0, 20]],
        seconds: 120,
        workMs,
        isWhole,
        seed,
      })
      expect(load.heldMost, `seed ${seed}`).toBeLessThanOrEqual(30)
    }
  })

  it.each([
    ['per answer', true, 500, 5000, 1, 8],
    ['per first token', false, 500, 5000, 1, 8],
    ['4 times as long under load', false, 100, 400, 50, 50],
    ['5 times', false, 100, 500, 50, 50],
    ['20 times', false, 100, 2000, 50, 50],
  ] as const)(
    'short requests, then long ones, %s - held back for a short time',
    (_, isWhole, beforeMs, afterMs, slowly, quickly) => {
      for (let seed = 1; seed <= 10; seed++) {
        const load = run({
          rank: parallel,
          phases: [
            [0, slowly],
            [30, quickly],
          ],
          seconds: 250,
          workMs: (random, nowMs) => even(0.8, 1.2)(random) * (nowMs < 30_000 ? beforeMs : afterMs),
          isWhole,
          seed,
        })
        expect(load.heldMost, `seed ${seed}`).toBeLessThan(100 * quickly)
        expect(load.perSecond(150), `seed ${seed}`).toBeGreaterThan(0.9 * quickly)
      }
    },
  )

  it('all requests suddenly take ten times as long - held back for a short time', () => {
    const load = run({
      rank: parallel,
      phases: [[0, 20]],
      seconds: 200,
      workMs: (random, nowMs) => even(200, 400)(random) * (nowMs > 60_000 ? 10 : 1),
    })
    expect(load.perSecond(150)).toBeGreaterThan(19)
    expect(load.insideMs(150)).toBeLessThan(4500)
  })

  it('nothing was learned yet - a burst is not held back', () => {
    const load = run({
      rank: parallel,
      phases: [
        [0, 1000],
        [1, 0.1],
      ],
      seconds: 20,
      workMs: even(3000, 5000),
    })
    expect(load.heldMost).toBeLessThanOrEqual(1)
  })
})

describe('prompts that are computed one after the other', () => {
  const serial = (events: Events) => new Places(events, 1)
  const size = (random: Random): number => (random.next() < 0.01 ? 30_000 : 100)

  it('one long prompt - those behind it are not a sign of overload', () => {
    const events = new Events()
    const limit = new OpenLimit(QUEUE)
    for (const [tokens, ms] of [
      [100, 10],
      [30_000, 3000],
    ] as const) {
      const open = limit.sent(tokens, false, alone(limit.open), events.nowMs)
      events.nowMs += ms
      limit.answered(open, events.nowMs)
      events.nowMs += 10_000
    }
    const opens = [30_000, ...Array.from({ length: 100 }, () => 100)].map((tokens) => {
      events.nowMs += 20
      return limit.sent(tokens, false, alone(limit.open), events.nowMs)
    })
    events.nowMs += 1000
    for (const open of opens) {
      events.nowMs += 10
      limit.answered(open, events.nowMs)
    }
    expect(limit.max).toBe(Infinity)
  })

  it('more prompts than it computes - stays busy, short waits', () => {
    const load = run({
      rank: serial,
      phases: [[0, 300]],
      seconds: 60,
      tokens: size,
      workMs: () => 10,
    })
    expect(load.perSecond(30)).toBeGreaterThan(95)
    expect(load.insideMs(30)).toBeLessThan(1000)
  })
})
