/**
 * Splits a forwarded stream of server-sent events: whole events are passed on unchanged, an incomplete one waits for
 * its rest, so that an interrupted answer ends between two events.
 *
 * Text has one character per byte. An event that reports an error is passed separately, and comments lose their
 * text, because both may contain internals of the engine.
 */
import { withPlainComments } from './event-comments.ts'
import { dataOf, reportsFailure } from './reported-failure.ts'

interface EventCutterSink {
  /** Whole events, unchanged. */
  events(text: string): void
  /** One event that reports a failure of the engine. */
  failed(event: string): void
}

/** A longer event is passed on in parts. */
const EVENT_BYTES_MAX = 1024 * 1024
/** An empty line in a stream whose lines end with CR. */
const EMPTY_CR = '\r\r'
/** Also after a byte order mark; the fields of an event may be in any order. */
const FAILURE =
  /^(?:\xef\xbb\xbf)?data: ?\{\s*"(?:error"|object": ?"error"|type": ?"error"|detail")|(?:^|^\xef\xbb\xbf|[\r\n])event: ?error[\r\n]/

export class EventCutter {
  readonly #sink: EventCutterSink
  #waiting = ''
  /** True when the next byte starts an event; false within one that is passed on in parts. */
  #isAtStart = true

  constructor(sink: EventCutterSink) {
    this.#sink = sink
  }

  push(text: string): void {
    const all = this.#waiting === '' ? text : this.#waiting + text
    const end = endOfEvents(all, this.#waiting.length)
    this.#waiting = ''
    if (end === all.length) {
      this.#let(all)
      return
    }
    if (end > 0) this.#let(all.slice(0, end))
    const rest = end === 0 ? all : all.slice(end)
    if (rest.length <= EVENT_BYTES_MAX) this.#waiting = rest
    else {
      this.#let(rest)
      this.#isAtStart = false
    }
  }

  /** The body has ended properly, so an incomplete event is what the engine intended. */
  end(): void {
    const rest = this.#waiting
    this.#waiting = ''
    if (rest !== '') this.#let(rest)
  }

  #let(came: string): void {
    const text = withPlainComments(came, this.#isAtStart)
    // Events of successful answers start differently; only possible failures are split off.
    if (!this.#isAtStart || !mayHoldFailure(text)) {
      this.#isAtStart = true
      this.#sink.events(text)
      return
    }
    let from = 0
    let kept = 0
    while (from < text.length) {
      const end = endOfEvent(text, from)
      const event = text.slice(from, end)
      if (isFailure(event)) {
        if (from > kept) this.#sink.events(text.slice(kept, from))
        this.#sink.failed(event)
        kept = end
      }
      from = end
    }
    if (kept < text.length) this.#sink.events(text.slice(kept))
  }
}

function isFailure(event: string): boolean {
  return FAILURE.test(event) || (mayHoldFailure(event) && reportsFailure(dataOf(event)))
}

function mayHoldFailure(text: string): boolean {
  return text.includes('error') || text.includes('"detail"')
}

/** The position after the last empty line; 0: there is none. */
function endOfEvents(text: string, seen: number): number {
  const { length } = text
  if (text.charCodeAt(length - 1) === 10 && isEmptyLineAt(text, length - 1)) return length
  // The waiting text contains no empty line, but its last line end may be half of one.
  const from = Math.max(0, seen - 3)
  for (let at = text.lastIndexOf('\n'); at >= from; at = text.lastIndexOf('\n', at - 1)) {
    if (isEmptyLineAt(text, at)) return at + 1
    if (at === 0) break
  }
  // Lines may also end with a CR alone.
  const bare = text.lastIndexOf(EMPTY_CR)
  return bare >= from ? bare + EMPTY_CR.length : 0
}

/** The position after the empty line that ends the event; the end of the text if there is none. */
function endOfEvent(text: string, from: number): number {
  const bare = text.indexOf(EMPTY_CR, from)
  const end = bare < 0 ? text.length : bare + EMPTY_CR.length
  for (let at = text.indexOf('\n', from); at >= 0 && at < end; at = text.indexOf('\n', at + 1)) {
    if (isEmptyLineAt(text, at)) return at + 1
  }
  return end
}

/** True when the line that ends at this line feed is empty. */
function isEmptyLineAt(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1)
  return before === 10 || (before === 13 && text.charCodeAt(at - 2) === 10)
}
