/**
 * The events of a background response, numbered from 0, so that a client can read them again or continue after
 * it lost its connection.
 *
 * The process that computes the response keeps the newest events in memory and writes them to the store in
 * segments, which other frontends with the same store read.
 */
import { isRecord } from '../../base/index.ts'
import type { StoredResponses } from './stored-responses.ts'

export interface EventSource {
  /** True: no event will be added. */
  readonly isOver: boolean
  /**
   * The texts of the events from number `first` on, not always all of them; empty when there are none yet.
   * Undefined: they are not kept any more.
   */
  from(first: number): readonly string[] | undefined
}

/** Limit for the events of one response, in characters; the oldest above it are dropped. */
const CHARACTERS_MAX = 4 * 1024 * 1024
const SEGMENT_CHARACTERS = 64 * 1024

type Store = Pick<StoredResponses, 'has' | 'note' | 'readNote' | 'dropNote'>

/** What the store says about all segments. */
interface Head {
  /** The number of the oldest segment. */
  readonly oldest: number
  /** The number of the first event of each segment. */
  readonly starts: readonly number[]
  readonly isOver: boolean
}

export class EventLog implements EventSource {
  readonly #store: Store
  readonly #id: string
  readonly #listeners = new Set<() => void>()
  /** Events that are not in the store. */
  #fresh: string[] = []
  #freshCharacters = 0
  #size = 0
  #oldest = 0
  #segments: { readonly start: number; readonly characters: number }[] = []
  #isOver = false

  constructor(store: Store, id: string) {
    this.#store = store
    this.#id = id
  }

  /** The number of the next event. */
  get size(): number {
    return this.#size
  }

  get isOver(): boolean {
    return this.#isOver
  }

  append(text: string): void {
    if (this.#isOver) return
    this.#fresh.push(text)
    this.#freshCharacters += text.length
    this.#size += 1
    if (this.#freshCharacters >= SEGMENT_CHARACTERS) this.flush()
    this.#tell()
  }

  from(first: number): readonly string[] | undefined {
    const inMemory = this.#size - this.#fresh.length
    if (first >= inMemory) return this.#fresh.slice(first - inMemory)
    return segmentFrom(this.#store, this.#id, this.#head(), first)
  }

  /** Calls `listener` after each event and at the end, until the returned function is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Writes new events to the store. */
  flush(): void {
    if (this.#fresh.length === 0 && !this.#isOver) return
    // The events of a deleted response are not stored again.
    if (!this.#store.has(this.#id)) return
    if (this.#fresh.length > 0) {
      const start = this.#size - this.#fresh.length
      const json = JSON.stringify(this.#fresh)
      this.#store.note(this.#id, segmentName(this.#oldest + this.#segments.length), json)
      this.#segments.push({ start, characters: this.#freshCharacters })
      this.#fresh = []
      this.#freshCharacters = 0
    }
    this.#dropOldest()
    this.#store.note(this.#id, HEAD, JSON.stringify(this.#head()))
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.flush()
    this.#tell()
  }

  #head(): Head {
    const starts = this.#segments.map(({ start }) => start)
    return { oldest: this.#oldest, starts, isOver: this.#isOver }
  }

  #dropOldest(): void {
    let characters = this.#segments.reduce((sum, segment) => sum + segment.characters, 0)
    while (characters > CHARACTERS_MAX) {
      characters -= this.#segments.shift()?.characters ?? 0
      this.#store.dropNote(this.#id, segmentName(this.#oldest))
      this.#oldest += 1
    }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** The events of a response that another process computes, or that has ended. */
export class StoredEvents implements EventSource {
  readonly #store: Store
  readonly #id: string
  readonly #failure: (sequence: number) => string | undefined
  #failed = false

  /** `failure` returns the last event when the process that computed the response has stopped. */
  constructor(store: Store, id: string, failure: (sequence: number) => string | undefined) {
    this.#store = store
    this.#id = id
    this.#failure = failure
  }

  /** False: the response has no events, or no longer. */
  get exists(): boolean {
    return readHead(this.#store, this.#id) !== undefined
  }

  get isOver(): boolean {
    return this.#failed || readHead(this.#store, this.#id)?.isOver !== false
  }

  from(first: number): readonly string[] | undefined {
    const head = readHead(this.#store, this.#id)
    if (head === undefined) return undefined
    const events = segmentFrom(this.#store, this.#id, head, first)
    if (events?.length !== 0 || head.isOver || this.#failed) return events
    const failure = this.#failure(first)
    if (failure === undefined) return events
    this.#failed = true
    return [failure]
  }
}

/** Removes all events of a response. */
export function dropEvents(store: Store, id: string): void {
  const head = readHead(store, id)
  head?.starts.forEach((_, index) => store.dropNote(id, segmentName(head.oldest + index)))
  store.dropNote(id, HEAD)
}

const HEAD = 'events'

function segmentName(index: number): string {
  return `${HEAD} ${index}`
}

function readHead(store: Store, id: string): Head | undefined {
  const head: unknown = JSON.parse(store.readNote(id, HEAD) ?? 'null')
  return isRecord(head) ? (head as unknown as Head) : undefined
}

/** The rest of the segment that contains event `first`. */
function segmentFrom(
  store: Store,
  id: string,
  { oldest, starts }: Head,
  first: number,
): readonly string[] | undefined {
  const index = starts.findLastIndex((start) => start <= first)
  const start = starts[index]
  if (start === undefined) return starts.length === 0 ? [] : undefined
  const json = store.readNote(id, segmentName(oldest + index))
  return json === undefined ? undefined : (JSON.parse(json) as string[]).slice(first - start)
}
