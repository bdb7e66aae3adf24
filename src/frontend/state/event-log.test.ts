import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../sim/index.ts'
import { OPEN_CALLER } from '../access/caller.ts'
import { dropEvents, EventLog, StoredEvents } from './event-log.ts'
import type { EventSource } from './event-log.ts'
import { MemoryStateStore } from './state-store.ts'
import { StoredResponses } from './stored-responses.ts'

const ID = 'resp_a'
const MIB = 1024 * 1024

function storeOf(bytesMax = 64 * MIB): StoredResponses {
  const clock = new VirtualClock()
  const stored = new StoredResponses(
    new MemoryStateStore({ clock, ttlMs: 1000, bytesMax }),
    OPEN_CALLER,
  )
  stored.keepResponse(ID, { response: { id: ID }, input: [] })
  return stored
}

/** Everything from `first` on. */
function allFrom(source: EventSource, first: number): readonly string[] | undefined {
  const all: string[] = []
  for (;;) {
    const events = source.from(first + all.length)
    if (events === undefined) return undefined
    if (events.length === 0) return all
    all.push(...events)
  }
}

describe('EventLog', () => {
  it('events - are the same from memory and from the store, from every number on', () => {
    const stored = storeOf()
    const log = new EventLog(stored, ID)
    const other = new StoredEvents(stored, ID, () => undefined)
    const all = Array.from({ length: 40 }, (_, i) => `event ${i}\n\n`)
    all.forEach((text, i) => {
      log.append(text)
      if (i % 7 === 3) log.flush()
    })
    for (let first = 0; first <= 45; first++) {
      expect(allFrom(log, first)).toEqual(all.slice(first))
      expect(allFrom(other, first)).toEqual(all.slice(0, 39).slice(first))
    }
    expect(other.isOver).toBe(false)
    log.end()
    log.append('too late')
    expect([other.isOver, allFrom(other, 0)]).toEqual([true, all])
  })

  it('beyond the limit - the oldest events are dropped and reported as missing', () => {
    const stored = storeOf()
    const log = new EventLog(stored, ID)
    const large = 'x'.repeat(200 * 1024)
    for (let i = 0; i < 30; i++) log.append(`${i}${large}`)
    log.end()
    const other = new StoredEvents(stored, ID, () => undefined)
    for (const source of [log, other]) {
      expect(allFrom(source, 0)).toBeUndefined()
      expect(allFrom(source, 9)).toBeUndefined()
      expect(allFrom(source, 12)).toHaveLength(18)
    }
  })

  it('a store that forgets - makes events missing, never wrong', () => {
    const log = new EventLog(storeOf(MIB), ID)
    const large = 'x'.repeat(100 * 1024)
    for (let i = 0; i < 10; i++) log.append(`${i}${large}`)
    expect(allFrom(log, 0)).toBeUndefined()
    expect(log.from(9)?.[0]?.[0]).toBe('9')
  })

  it('deleted responses - leave no events', () => {
    const stored = storeOf()
    const log = new EventLog(stored, ID)
    log.append('a')
    log.flush()
    stored.delete(ID, 'response')
    dropEvents(stored, ID)
    log.append('b')
    log.end()
    expect(new StoredEvents(stored, ID, () => undefined).exists).toBe(false)
  })

  it('a process that stopped - its last event is a failure, once', () => {
    const stored = storeOf()
    const log = new EventLog(stored, ID)
    log.append('a')
    log.flush()
    let isAlive = true
    const other = new StoredEvents(stored, ID, (n) => (isAlive ? undefined : `failed ${n}`))
    expect([other.from(1), other.isOver]).toEqual([[], false])
    isAlive = false
    expect([other.from(0), other.from(1), other.from(2), other.isOver]).toEqual([
      ['a'],
      ['failed 1'],
      [],
      true,
    ])
  })
})
