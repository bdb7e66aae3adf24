/**
 * Extracts tool calls from a stream of text. Text is passed on at once, and so are the arguments of a call whose name
 * is known. The content of a section before that is withheld; a section without any call is emitted as text, so
 * nothing is lost.
 *
 * Blanks between calls, and before or after an output that consists only of calls, are removed.
 */
import type { CallReader, CallSink } from './call-reader.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { OfferedTool, OutputEvent, OutputParser } from './output-event.ts'

interface ToolSection {
  readonly open: string
  /** Null: the section continues as long as there are calls. */
  readonly close: string | null
}

export interface ToolFormat {
  readonly sections: readonly ToolSection[]
  /** Control tokens inside a section. */
  readonly innerMarkers?: readonly string[]
  /** A section is one JSON object with `name` and `arguments`, so that a grammar can constrain it. */
  readonly holdsOneObject?: boolean
  /** For calls without a marker: whether an output that begins like this may be a call. */
  readonly bare?: (begin: string) => 'yes' | 'no' | 'undecided'
  /** Such a call may also begin a line after text. */
  readonly isBareAfterText?: boolean
  /** Creates the reader of a section; `open` is empty for calls without a marker, which must name one of `tools`. */
  createReader(section: ToolSection, tools: readonly OfferedTool[]): CallReader
}

interface OpenSection extends ToolSection {
  readonly reader: CallReader
  closing: MarkerScanner
  readonly callsBefore: number
  /** Invalid content is being passed on, up to the closing marker or another call. */
  isLost: boolean
  /** The text that belongs to no call has been passed on. */
  isGiven: boolean
}

type Place =
  | { readonly kind: 'begin' }
  | { readonly kind: 'text' }
  | { readonly kind: 'section'; readonly section: OpenSection }

/** The beginning of a call without a marker in a new line. */
const BARE_LINE = '\n{'

export class ToolCallParser implements OutputParser, CallSink {
  readonly markers: readonly string[]
  readonly #format: ToolFormat
  readonly #tools: readonly OfferedTool[]
  readonly #isHeld: boolean
  readonly #openings: MarkerScanner
  #place: Place
  #events: OutputEvent[] = []
  #held = ''
  /** Blanks that are emitted only if text follows. */
  #blanks = ''
  /** Blanks are held: after a call, or at the beginning. */
  #waitsForText = true
  #callCount = 0

  /** `isHeld`: a grammar constrains the output, so that whatever begins like a call is one. */
  constructor(format: ToolFormat, tools: readonly OfferedTool[] = [], isHeld = false) {
    this.#format = format
    this.#isHeld = isHeld
    this.#tools = tools
    const openings = format.sections.map((section) => section.open)
    this.#openings = new MarkerScanner(
      format.isBareAfterText === true ? [...openings, BARE_LINE] : openings,
    )
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
    this.#held += text
    while (this.#step()) continue
    return this.#takeEvents()
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    if (this.#place.kind === 'section') {
      if (isCut === true && this.#isHeld) this.#cutOff(this.#place.section)
      this.#breakOff(this.#place.section)
    }
    this.#text(this.#held)
    this.#held = ''
    if (this.#callCount === 0 && this.#blanks !== '')
      this.#events.push({ kind: 'text', text: this.#blanks })
    this.#blanks = ''
    return this.#takeEvents()
  }

  start(name: string): void {
    this.#blanks = ''
    this.#waitsForText = true
    this.#events.push({ kind: 'tool-call-start', index: this.#callCount++, name })
  }

  arguments(text: string): void {
    this.#events.push({ kind: 'tool-call-arguments', index: this.#callCount - 1, text })
  }

  end(): void {
    this.#events.push({ kind: 'tool-call-end', index: this.#callCount - 1 })
  }

  #takeEvents(): readonly OutputEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }

  /** Inside plain text. */
  get #isPassing(): boolean {
    return this.#place.kind === 'text' && !this.#waitsForText
  }

  /** One step on the held text; false if more text is needed. */
  #step(): boolean {
    switch (this.#place.kind) {
      case 'begin':
        return this.#begin()
      case 'text':
        return this.#scanText()
      case 'section':
        return this.#place.section.isLost
          ? this.#passLost(this.#place.section)
          : this.#readSection(this.#place.section)
    }
  }

  #begin(): boolean {
    const verdict = this.#format.bare?.(this.#held) ?? 'no'
    if (verdict === 'undecided') return false
    if (verdict === 'yes') this.#open({ open: '', close: null })
    else this.#place = { kind: 'text' }
    return true
  }

  #scanText(): boolean {
    const scan = this.#openings.scan(this.#held)
    if (scan.kind === 'text') {
      this.#text(scan.text)
      this.#held = scan.held
      return false
    }
    if (scan.marker === BARE_LINE) {
      this.#text(`${scan.before}\n`)
      this.#held = `{${scan.after}`
      this.#place = { kind: 'begin' }
      return true
    }
    this.#text(scan.before)
    this.#held = scan.after
    const close = this.#format.sections.find(({ open }) => open === scan.marker)?.close ?? null
    this.#open({ open: scan.marker, close })
    return true
  }

  #open(section: ToolSection): void {
    const reader = this.#format.createReader(section, this.#tools)
    const closing = new MarkerScanner(section.close === null ? [] : [section.close])
    const state = { callsBefore: this.#callCount, isLost: false, isGiven: false }
    this.#place = { kind: 'section', section: { ...section, reader, closing, ...state } }
  }

  #readSection(section: OpenSection): boolean {
    const { consumed, isWrong } = section.reader.read(this.#held, this)
    this.#held = this.#held.slice(consumed)
    if (!isWrong) return false
    const { close } = section
    if (close !== null && this.#held.startsWith(close)) {
      this.#held = this.#held.slice(close.length)
      this.#endSection(section, close)
    } else if (close === null && !section.reader.isInArguments) this.#endSection(section, '')
    else if (this.#opensAnother(section)) {
      // Models sometimes write the opening tag for the closing tag.
      if (this.#held.startsWith(section.open)) this.#endSection(section, '')
      else return false
    } else if (close?.startsWith(this.#held) === true) return false
    else this.#lose(section)
    return true
  }

  #lose(section: OpenSection): void {
    const { close, reader } = section
    section.isLost = true
    if (reader.isInArguments) return
    reader.end(this, '')
    const ends = [close, reader.nextCall].filter((marker) => typeof marker === 'string')
    section.closing = new MarkerScanner(ends)
  }

  /** Behind a call the section's opening tag follows, or may follow. */
  #opensAnother({ open, callsBefore, reader }: OpenSection): boolean {
    if (open === '' || this.#callCount === callsBefore || reader.isInArguments) return false
    return this.#held.startsWith(open) || open.startsWith(this.#held)
  }

  /** Invalid JSON in arguments stays as the model wrote it; other invalid content becomes text. */
  #passLost(section: OpenSection): boolean {
    const { reader, closing } = section
    const scan = closing.scan(this.#held)
    const rest = scan.kind === 'text' ? scan.text : scan.before
    if (!reader.isInArguments) {
      this.#emitUnclaimed(section)
      this.#text(rest)
    } else if (rest !== '') this.arguments(rest)
    this.#held = scan.kind === 'text' ? scan.held : scan.after
    if (scan.kind === 'text') return false
    if (scan.marker === reader.nextCall) {
      this.#held = scan.marker + scan.after
      section.isLost = false
      section.isGiven = false
    } else this.#endSection(section, scan.marker)
    return true
  }

  /** The output was cut off at the beginning of a call. */
  #cutOff(section: OpenSection): void {
    if (section.isLost || section.reader.isInArguments) return
    section.reader.cutOff?.(this)
    section.isGiven = true
    this.#held = ''
  }

  /** The output ends inside a section. */
  #breakOff(section: OpenSection): void {
    if (section.reader.isInArguments) {
      section.reader.end(this, this.#held)
      this.#held = ''
    }
    this.#endSection(section, '')
    // After a call only the beginning of a marker can be held.
    const hasCalls = this.#callCount > section.callsBefore
    if (hasCalls && !section.isLost) this.#held = ''
  }

  #endSection(section: OpenSection, close: string): void {
    this.#place = { kind: 'text' }
    section.reader.end(this, '')
    this.#emitUnclaimed(section)
    if (this.#callCount === section.callsBefore) this.#text(close)
  }

  #emitUnclaimed(section: OpenSection): void {
    if (section.isGiven) return
    section.isGiven = true
    const hasCalls = this.#callCount > section.callsBefore
    this.#text((hasCalls ? '' : section.open) + section.reader.unclaimed)
  }

  #text(text: string): void {
    if (text === '') return
    if (this.#waitsForText && text.trim() === '') {
      this.#blanks += text
      return
    }
    this.#events.push({ kind: 'text', text: this.#blanks + text })
    this.#blanks = ''
    this.#waitsForText = false
  }
}
