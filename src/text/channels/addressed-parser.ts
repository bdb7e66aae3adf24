/**
 * Parser for the output format of Muse: messages with an address. A message to `self` is reasoning, to `user` or
 * `commentary` text, to any other address tool calls, which are XML-like elements in a section of their own.
 *
 *   to=self<|message|>…<|eom|><|start|>assistant to=user<|message|>…<|eot|>
 */
import { MarkerStream } from '../output/marker-stream.ts'
import type { OutputEvent, OutputParser } from '../output/output-event.ts'

const START = '<|start|>'
const MESSAGE = '<|message|>'
const MARKERS = [START, MESSAGE, '<|eom|>', '<|eot|>']
const TO_READER = new Set(['user', 'commentary'])

export class AddressedParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #calls: OutputParser
  readonly #stream = new MarkerStream<OutputEvent[]>(MARKERS, {
    onText: (text, events) => this.#take(text, events),
    onMarker: (marker, events) => this.#mark(marker, events),
  })
  /**
   * `begin`: the prompt ends with `<|start|>assistant`, so the output starts with an address, or with text and no
   * header.
   */
  #place: 'begin' | 'header' | 'body' = 'begin'
  #kind: 'text' | 'reasoning' | 'calls' = 'text'
  #header = ''

  /** `calls`: parser for messages that are addressed to tools. */
  constructor(calls: OutputParser) {
    this.#calls = calls
    this.markers = [...MARKERS, ...calls.markers]
  }

  push(text: string): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#stream.push(text, events)
    return events
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#stream.flush(events)
    this.#abandonHeader(events)
    events.push(...this.#calls.flush(isCut))
    return events
  }

  #take(text: string, events: OutputEvent[]): void {
    if (text === '') return
    if (this.#place === 'body') this.#emit(text, events)
    else {
      this.#header += text
      if (this.#place === 'begin' && !mayBeAddress(this.#header)) this.#abandonHeader(events)
    }
  }

  #mark(marker: string, events: OutputEvent[]): void {
    if (marker === MESSAGE && this.#place !== 'body') {
      const to = /\bto=([^\s<]+)/.exec(this.#header)?.[1] ?? 'user'
      this.#kind = TO_READER.has(to) ? 'text' : 'calls'
      if (to === 'self') this.#kind = 'reasoning'
      this.#header = ''
      this.#place = 'body'
      return
    }
    this.#abandonHeader(events)
    this.#kind = 'text'
    if (marker === START) this.#place = 'header'
  }

  #emit(text: string, events: OutputEvent[]): void {
    if (this.#kind === 'calls') events.push(...this.#calls.push(text))
    else events.push({ kind: this.#kind, text })
  }

  /** The possible header at the very beginning turned out to be text; any other incomplete header is dropped. */
  #abandonHeader(events: OutputEvent[]): void {
    const text = this.#place === 'begin' ? this.#header : ''
    this.#place = 'body'
    this.#header = ''
    if (text !== '') this.#emit(text, events)
  }
}

function mayBeAddress(header: string): boolean {
  const begin = header.trimStart()
  return 'to='.startsWith(begin) || /^to=\S*$/.test(begin)
}
