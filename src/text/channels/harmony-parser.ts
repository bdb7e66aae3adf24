/**
 * Parser for the harmony format of gpt-oss: messages with a header whose channel gives the kind. `analysis` is
 * reasoning, `final` is text, `commentary to=functions.name` is a tool call with streamed arguments, other commentary
 * is text.
 *
 *   <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>
 */
import { MarkerStream } from '../output/marker-stream.ts'
import type { OfferedTool, OutputEvent, OutputParser } from '../output/output-event.ts'

const START = '<|start|>'
const CHANNEL = '<|channel|>'
const CONSTRAIN = '<|constrain|>'
const MESSAGE = '<|message|>'
const MARKERS = [START, CHANNEL, CONSTRAIN, MESSAGE, '<|end|>', '<|return|>', '<|call|>']

export class HarmonyParser implements OutputParser {
  readonly markers = MARKERS
  readonly #stream = new MarkerStream<OutputEvent[]>(MARKERS, {
    onText: (text, events) => this.#take(text, events),
    onMarker: (marker, events) => this.#mark(marker, events),
  })
  /**
   * `begin`: the prompt ends with `<|start|>assistant`, so the output starts with a recipient, or with text and no
   * header.
   */
  #place: 'begin' | 'header' | 'body' = 'begin'
  #kind: 'text' | 'reasoning' | 'tool' = 'text'
  #header = ''
  #callIndex = -1
  readonly #tools: readonly OfferedTool[]

  constructor(tools: readonly OfferedTool[] = []) {
    this.#tools = tools
  }

  push(text: string): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#stream.push(text, events)
    return events
  }

  flush(): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    this.#stream.flush(events)
    this.#abandonHeader(events)
    this.#endMessage(events)
    return events
  }

  #take(text: string, events: OutputEvent[]): void {
    if (text === '') return
    if (this.#place === 'body') this.#emit(text, events)
    else {
      this.#header += text
      if (this.#place === 'begin' && !mayBeRecipient(this.#header)) this.#abandonHeader(events)
    }
  }

  #mark(marker: string, events: OutputEvent[]): void {
    const isInHeader = marker === CHANNEL || marker === CONSTRAIN
    if (marker === MESSAGE) {
      this.#place = 'body'
      this.#beginMessage(events)
    } else if (isInHeader && this.#place !== 'body') {
      this.#place = 'header'
      this.#header += marker
    } else if (isInHeader || marker === START) {
      this.#endMessage(events)
      this.#place = 'header'
      this.#header = isInHeader ? marker : ''
    } else {
      this.#abandonHeader(events)
      this.#endMessage(events)
    }
  }

  #emit(text: string, events: OutputEvent[]): void {
    if (text === '') return
    if (this.#kind === 'tool') {
      events.push({ kind: 'tool-call-arguments', index: this.#callIndex, text })
    } else events.push({ kind: this.#kind, text })
  }

  /** The possible header at the very beginning turned out to be text; any other incomplete header is dropped. */
  #abandonHeader(events: OutputEvent[]): void {
    const text = this.#place === 'begin' ? this.#header : ''
    this.#place = 'body'
    this.#header = ''
    this.#emit(text, events)
  }

  #beginMessage(events: OutputEvent[]): void {
    const recipient = this.#toolOf(this.#header)
    const channel = /<\|channel\|>\s*(\w+)/.exec(this.#header)?.[1]
    this.#header = ''
    if (recipient !== undefined) {
      this.#kind = 'tool'
      this.#callIndex++
      events.push({ kind: 'tool-call-start', index: this.#callIndex, name: recipient })
    } else this.#kind = channel === 'analysis' ? 'reasoning' : 'text'
  }

  /** Without the namespace `functions` a recipient is a tool only if it is offered. */
  #toolOf(header: string): string | undefined {
    const [, space, name] = /\bto=(functions\.)?([^\s<]+)/.exec(header) ?? []
    const isTool = space !== undefined || this.#tools.some((tool) => tool.name === name)
    return isTool ? name : undefined
  }

  #endMessage(events: OutputEvent[]): void {
    if (this.#kind === 'tool') events.push({ kind: 'tool-call-end', index: this.#callIndex })
    this.#kind = 'text'
  }
}

function mayBeRecipient(header: string): boolean {
  const begin = header.trimStart()
  return 'to='.startsWith(begin) || begin.startsWith('to=')
}
