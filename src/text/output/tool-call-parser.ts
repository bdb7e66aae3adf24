/**
 * Takes calls of tools out of a stream of text. Text goes through at once; what stands in a section of calls is
 * withheld until the section is complete. A section that cannot be understood is text after all, so nothing is lost.
 *
 * Blanks between calls, and before or after an output that is nothing but calls, are dropped.
 */
import { MarkerScanner } from './marker-scanner.ts'
import type { OfferedTool, OutputEvent, OutputParser, ToolCall } from './output-event.ts'

interface ToolSection {
  readonly open: string
  /** Null: the section goes on to the end of the output. */
  readonly close: string | null
}

export interface ToolFormat {
  readonly sections: readonly ToolSection[]
  /** Control tokens inside a section. */
  readonly innerMarkers?: readonly string[]
  /** Calls without a marker: whether an output that begins so may be one. */
  readonly bare?: (begin: string) => 'yes' | 'no' | 'undecided'
  /** The closing marker behind such a body belongs to a value. */
  readonly endsInsideValue?: (body: string) => boolean
  decode(body: string, tools: readonly OfferedTool[]): readonly ToolCall[] | null
}

type Place =
  | { readonly kind: 'begin' }
  | { readonly kind: 'text' }
  | { readonly kind: 'section'; readonly open: string; readonly close: string | null }

export class ToolCallParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #format: ToolFormat
  readonly #tools: readonly OfferedTool[]
  readonly #openings: MarkerScanner
  #place: Place
  #held = ''
  #searchFrom = 0
  /** Blanks that are emitted only if text follows. */
  #blanks = ''
  /** Since the last call, or at the beginning: blanks wait. */
  #waitsForText = true
  #callCount = 0

  constructor(format: ToolFormat, tools: readonly OfferedTool[] = []) {
    this.#format = format
    this.#tools = tools
    this.#openings = new MarkerScanner(format.sections.map((section) => section.open))
    this.#place = { kind: format.bare === undefined ? 'text' : 'begin' }
    this.markers = [
      ...format.sections.flatMap(({ open, close }) => (close === null ? [open] : [open, close])),
      ...(format.innerMarkers ?? []),
    ]
  }

  push(text: string): readonly OutputEvent[] {
    if (this.#isPassing && this.#held === '' && text !== '' && this.#openings.passes(text)) {
      return [{ kind: 'text', text }]
    }
    const events: OutputEvent[] = []
    this.#held += text
    while (this.#step(events)) continue
    return events
  }

  flush(): readonly OutputEvent[] {
    const events: OutputEvent[] = []
    const rest = this.#held
    this.#held = ''
    if (this.#place.kind === 'section') this.#endSection(rest, '', this.#place.open, events)
    else this.#text(rest, events)
    if (this.#callCount === 0 && this.#blanks !== '')
      events.push({ kind: 'text', text: this.#blanks })
    this.#blanks = ''
    return events
  }

  /** In the midst of plain text. */
  get #isPassing(): boolean {
    return this.#place.kind === 'text' && !this.#waitsForText
  }

  /** One step on what is held; false when more text is needed. */
  #step(events: OutputEvent[]): boolean {
    switch (this.#place.kind) {
      case 'begin':
        return this.#begin()
      case 'text':
        return this.#scanText(events)
      case 'section':
        return this.#scanSection(this.#place.open, this.#place.close, events)
    }
  }

  #begin(): boolean {
    const verdict = this.#format.bare?.(this.#held) ?? 'no'
    if (verdict === 'undecided') return false
    this.#place = verdict === 'yes' ? { kind: 'section', open: '', close: null } : { kind: 'text' }
    return true
  }

  #scanText(events: OutputEvent[]): boolean {
    const scan = this.#openings.scan(this.#held)
    if (scan.kind === 'text') {
      this.#text(scan.text, events)
      this.#held = scan.held
      return false
    }
    this.#text(scan.before, events)
    const close = this.#format.sections.find(({ open }) => open === scan.marker)?.close ?? null
    this.#place = { kind: 'section', open: scan.marker, close }
    this.#held = scan.after
    this.#searchFrom = 0
    return true
  }

  #scanSection(open: string, close: string | null, events: OutputEvent[]): boolean {
    if (close === null) return false
    let end = this.#held.indexOf(close, this.#searchFrom)
    while (end >= 0 && this.#format.endsInsideValue?.(this.#held.slice(0, end)) === true) {
      end = this.#held.indexOf(close, end + 1)
    }
    if (end < 0) {
      // What was searched is not searched again with each token of long arguments.
      this.#searchFrom = Math.max(0, this.#held.length - close.length + 1)
      return false
    }
    this.#searchFrom = 0
    const body = this.#held.slice(0, end)
    this.#held = this.#held.slice(end + close.length)
    this.#place = { kind: 'text' }
    this.#endSection(body, close, open, events)
    return true
  }

  #endSection(body: string, close: string, open: string, events: OutputEvent[]): void {
    const calls = this.#format.decode(body, this.#tools)
    if (calls === null || (open === '' && !this.#areOffered(calls))) {
      this.#text(open + body + close, events)
      return
    }
    this.#blanks = ''
    this.#waitsForText = true
    for (const call of calls) {
      const index = this.#callCount++
      events.push({ kind: 'tool-call-start', index, name: call.name })
      events.push({ kind: 'tool-call-arguments', index, text: call.argumentsJson })
      events.push({ kind: 'tool-call-end', index })
    }
  }

  /** What looks like a call without any marker is one only if there is such a tool. */
  #areOffered(calls: readonly ToolCall[]): boolean {
    return calls.every((call) => this.#tools.some((tool) => tool.name === call.name))
  }

  #text(text: string, events: OutputEvent[]): void {
    if (text === '') return
    if (this.#waitsForText && text.trim() === '') {
      this.#blanks += text
      return
    }
    events.push({ kind: 'text', text: this.#blanks + text })
    this.#blanks = ''
    this.#waitsForText = false
  }
}
