import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { NumberedBatch } from './content-marks.ts'
import { EventSequence } from './event-sequence.ts'

const nameOf = ({ payload, sequence }: NumberedBatch): string => `${payload[0]}/${sequence}`

/** One publisher, its connection to the subscriber and its replays, each in their own order. */
class Publisher {
  life = 0
  mostBefore = 0
  /** The names of all batches of the process that runs now. */
  published: string[] = []
  buffer: NumberedBatch[] = []
  #next = 0
  /** On their way, in this order. */
  readonly live: (NumberedBatch | 'disconnected' | 'connected')[] = []
  replay: NumberedBatch[] | null = null
  readonly #kept: number

  constructor(kept: number) {
    this.#kept = kept
  }

  publish(copies: number): void {
    const sequence = this.#next++
    const batch = { sequence, payload: Uint8Array.of(this.life, sequence, sequence >> 8) }
    this.published.push(nameOf(batch))
    this.buffer.push(batch)
    if (this.buffer.length > this.#kept) this.buffer.shift()
    for (let copy = 0; copy < copies; copy++) this.live.push(batch)
  }

  restart(isNoticed: boolean): void {
    this.life += 1
    this.mostBefore = Math.max(this.mostBefore, this.#next)
    this.#next = 0
    this.buffer = []
    this.published = []
    if (isNoticed) {
      // What was sent by the process before may still be read after the loss of its connection.
      const from = this.live.lastIndexOf('connected') + 1
      this.live.splice((from + this.live.length) >> 1, 0, 'disconnected')
      this.live.push('connected')
    } else {
      // Without a first batch that arrives, the numbers of two processes can go on as if it were one.
      this.publish(1)
    }
  }

  answer(from: number): void {
    this.replay = this.buffer.filter(({ sequence }) => sequence >= from)
  }
}

class Reader {
  readonly publisher: Publisher
  held: string[] = []
  clears = 0
  readonly sequence = new EventSequence({
    apply: (batch) => {
      this.held.push(nameOf(batch))
    },
    clear: () => {
      this.held = []
      this.clears += 1
    },
  })
  #hasFirst = false
  #isFaulty = false
  #wasFaulty = false

  constructor(publisher: Publisher) {
    this.publisher = publisher
    this.sequence.connected()
  }

  /** The next batch of the subscription is read. */
  readLive(): void {
    const next = this.publisher.live.shift()
    if (next === 'disconnected') {
      this.sequence.disconnected()
      this.publisher.replay = null
    } else if (next === 'connected') this.sequence.connected()
    else if (next !== undefined) this.sequence.live(next)
  }

  readAll(): void {
    while (this.publisher.live.length > 0) this.readLive()
  }

  /** The replay goes on by `count` batches; `isLost`: they do not arrive. No two replays in a row are faulty. */
  readReplay(count: number, isLost: boolean): void {
    const { publisher, sequence } = this
    if (!sequence.isAsking || (isLost && this.#wasFaulty)) return
    if (publisher.replay === null) {
      publisher.answer(sequence.ask())
      this.#hasFirst = false
      this.#isFaulty = false
    }
    // A queue that is full loses what comes after its first batches.
    const first = isLost && !this.#hasFirst ? 1 : 0
    const batches = publisher.replay!.splice(0, first + count)
    if (isLost) {
      batches.splice(first)
      this.#isFaulty = true
    }
    for (const batch of batches) sequence.replayed(batch)
    this.#hasFirst ||= batches.length > 0
    if (publisher.replay!.length === 0) this.#ended('whole')
  }

  failReplay(): void {
    if (this.publisher.replay === null || this.#wasFaulty) return
    this.#isFaulty = true
    this.#ended('failed')
  }

  #ended(end: 'whole' | 'failed'): void {
    this.publisher.replay = null
    this.#wasFaulty = this.#isFaulty
    this.sequence.replayEnded(end)
  }

  settle(): void {
    for (let round = 0; round < 2000; round++) {
      this.readAll()
      if (!this.sequence.isAsking) return
      this.readReplay(Infinity, false)
    }
    throw new Error('it asks for ever')
  }
}

type Step = (reader: Reader) => void
const steps = (faults: readonly fc.Arbitrary<Step>[]): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.oneof(
      fc.constantFrom<Step>(
        ({ publisher }) => publisher.publish(1),
        (reader) => reader.readLive(),
      ),
      fc.nat(4).map<Step>((count) => (reader) => reader.readReplay(count, false)),
      ...faults,
    ),
    { maxLength: 120 },
  )
const lost = fc.constant<Step>(({ publisher }) => publisher.publish(0))
const twice = fc.constant<Step>(({ publisher }) => publisher.publish(2))
const hole = fc.constant<Step>((reader) => reader.readReplay(1, true))
const failure = fc.constant<Step>((reader) => reader.failReplay())
const restarts = fc.boolean().map<Step>((isNoticed) => (reader) => {
  if (!isNoticed) reader.readAll()
  reader.publisher.restart(isNoticed)
})

/**
 * What is held when all is read, and the publisher has published more than the ones before it: until then, a late batch
 * of one of them can have the number that is expected.
 */
function heldAfter(run: readonly Step[], kept = Infinity): Reader {
  const reader = new Reader(new Publisher(kept))
  for (const step of run) step(reader)
  const { publisher } = reader
  do {
    publisher.publish(1)
    reader.settle()
  } while (publisher.published.length <= publisher.mostBefore)
  return reader
}

describe('EventSequence', () => {
  it('lost and repeated batches, replays with holes and failures, in any order - all are held, nothing is cleared', () => {
    fc.assert(
      fc.property(steps([lost, twice, hole, failure]), (run) => {
        const { held, publisher, sequence } = heldAfter(run)
        expect(held).toEqual(publisher.buffer.map(nameOf))
        expect(sequence.counters).toMatchObject({ restarts: 0, losses: 0 })
      }),
      { numRuns: 2000 },
    )
  })

  it('restarts as well, noticed or not - exactly what the last publisher has published is held', () => {
    fc.assert(
      fc.property(steps([lost, twice, hole, failure, restarts]), (run) => {
        const { held, publisher } = heldAfter(run)
        expect(held).toEqual(publisher.buffer.map(nameOf))
      }),
      { numRuns: 2000 },
    )
  })

  it('a publisher that keeps few batches - no gap and nothing of another publisher is held', () => {
    fc.assert(
      fc.property(
        steps([lost, twice, hole, failure, restarts]),
        fc.integer({ min: 1, max: 6 }),
        (run, kept) => {
          const { held, publisher } = heldAfter(run, kept)
          expect(held.length).toBeGreaterThan(0)
          expect(held).toEqual(publisher.published.slice(-held.length))
          expect(held.length).toBeGreaterThanOrEqual(publisher.buffer.length)
        },
      ),
      { numRuns: 2000 },
    )
  })

  it('more live batches than may wait while replays run - all are held after a few replays', () => {
    const reader = new Reader(new Publisher(Infinity))
    const { publisher, sequence } = reader
    let replays = 0
    while (sequence.isAsking && replays < 10) {
      replays += 1
      publisher.answer(sequence.ask())
      const count = replays === 1 ? 25_000 : 100
      for (let n = 0; n < count; n++) publisher.publish(1)
      reader.readAll()
      for (const batch of publisher.replay!) sequence.replayed(batch)
      sequence.replayEnded('whole')
    }
    expect(replays).toBeLessThan(4)
    expect(reader.held).toEqual(publisher.published)
  })

  it('batches that are lost while a replay runs - are requested again', () => {
    const reader = new Reader(new Publisher(Infinity))
    const { publisher, sequence } = reader
    for (const copies of [1, 1, 1]) publisher.publish(copies)
    reader.settle()
    const lostOneThenOne = (): void => {
      publisher.publish(0)
      publisher.publish(1)
      reader.readLive()
    }
    lostOneThenOne()
    publisher.answer(sequence.ask())
    lostOneThenOne()
    for (const batch of publisher.replay!) sequence.replayed(batch)
    expect(sequence.replayEnded('whole')).toBe(true)
    expect(sequence.ask()).toBe(4)
  })
})
