/**
 * Reads calls whose name is between markers and followed by a JSON object with the arguments, as DeepSeek, Kimi and
 * newer Mistral models write them.
 */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { JsonScanner } from './json-scanner.ts'
import { MarkerScanner } from './marker-scanner.ts'

export interface MarkedCallForm {
  /** Markers around each call; null: the marker of the section begins the only call. */
  readonly begin: string | null
  readonly end: string | null
  /** The text before the arguments; the first matching group is the name. */
  readonly head: RegExp
  /** A marker after the arguments, without meaning. */
  readonly argumentsEnd?: string
}

export class MarkedCallReader implements CallReader {
  readonly #form: MarkedCallForm
  readonly #headEnd: MarkerScanner
  #place: 'between' | 'head' | 'arguments' | 'tail' | 'over'
  #scanner = new JsonScanner()
  #head = ''
  #read = ''
  #callCount = 0

  /** `close`: the end of the section, which also ends a head without arguments. */
  constructor(form: MarkedCallForm, close: string | null) {
    this.#form = form
    const ends = ['{', form.end, close].filter((marker) => marker !== null)
    this.#headEnd = new MarkerScanner(ends)
    this.#place = form.begin === null ? 'head' : 'between'
  }

  get unclaimed(): string {
    return this.#place === 'head' || this.#callCount === 0 ? this.#read : ''
  }

  get nextCall(): string | null {
    return this.#place === 'between' && this.#callCount > 0 ? this.#form.begin : null
  }

  get isInArguments(): boolean {
    return this.#place === 'arguments'
  }

  read(text: string, sink: CallSink): Reading {
    let at = 0
    for (;;) {
      const place = this.#place
      const step = this.#step(text.slice(at), sink)
      if (place === 'between' || place === 'head') this.#read += text.slice(at, at + step.consumed)
      at += step.consumed
      const isWaiting = step.consumed === 0 && this.#place === place
      if (step.isWrong || isWaiting) return { consumed: at, isWrong: step.isWrong }
    }
  }

  end(sink: CallSink, rest: string): void {
    if (this.#place !== 'arguments') return
    if (rest !== '') sink.arguments(rest)
    sink.end()
    this.#place = 'over'
  }

  /** Reads one part; consumes nothing if more text is needed. */
  #step(text: string, sink: CallSink): Reading {
    switch (this.#place) {
      case 'head':
        return this.#readHead(text, sink)
      case 'arguments':
        return this.#readArguments(text, sink)
      case 'over':
        return wrongAt(0)
      default: {
        const fence = this.#place === 'tail' ? /^[\s`]+/ : /^\s+/
        const blanks = fence.exec(text)?.[0].length ?? 0
        if (blanks > 0) return { consumed: blanks, isWrong: false }
        return this.#readMarker(text)
      }
    }
  }

  #readMarker(text: string): Reading {
    const { argumentsEnd } = this.#form
    const marker = this.#place === 'tail' ? this.#form.end : this.#form.begin
    if (marker === null) return wrongAt(0)
    if (this.#place === 'tail' && argumentsEnd !== undefined && text !== '') {
      if (text.startsWith(argumentsEnd)) return { consumed: argumentsEnd.length, isWrong: false }
      if (argumentsEnd.startsWith(text)) return { consumed: 0, isWrong: false }
    }
    if (!text.startsWith(marker)) return { consumed: 0, isWrong: !marker.startsWith(text) }
    this.#place = this.#place === 'tail' ? 'between' : 'head'
    if (this.#place === 'head') {
      this.#head = ''
      if (this.#callCount > 0) this.#read = ''
    }
    return { consumed: marker.length, isWrong: false }
  }

  #readHead(text: string, sink: CallSink): Reading {
    const scan = this.#headEnd.scan(text)
    if (scan.kind === 'text') {
      this.#head += scan.text
      return { consumed: scan.text.length, isWrong: false }
    }
    const groups = this.#form.head.exec(this.#head + scan.before)?.slice(1) ?? []
    const name = groups.find((group) => group !== undefined)?.trim() ?? ''
    const isEnd = scan.marker === this.#form.end
    if (name === '' || (scan.marker !== '{' && !isEnd)) return wrongAt(scan.before.length)
    sink.start(name)
    this.#callCount += 1
    if (isEnd) {
      sink.arguments('{}')
      sink.end()
      this.#place = 'between'
      return { consumed: scan.before.length + scan.marker.length, isWrong: false }
    }
    this.#scanner = new JsonScanner()
    this.#place = 'arguments'
    return { consumed: scan.before.length, isWrong: false }
  }

  #readArguments(text: string, sink: CallSink): Reading {
    const consumed = this.#scanner.read(text, 0)
    if (this.#scanner.output !== '') sink.arguments(this.#scanner.output)
    if (this.#scanner.isDone) {
      sink.end()
      this.#place = this.#form.end === null ? 'over' : 'tail'
    }
    return { consumed, isWrong: this.#scanner.isWrong }
  }
}

function wrongAt(consumed: number): Reading {
  return { consumed, isWrong: true }
}
