/**
 * A value that a format writes without quotes, up to its closing tag: a text is given on as it comes, anything else when
 * it is whole.
 */
import type { CallSink } from './call-reader.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { OfferedTool } from './output-event.ts'
import { bareValue, isTextOnly, parameterTypes } from './parameter-value.ts'
import type { ParameterTypes } from './parameter-value.ts'

export interface UnquotedValueForm {
  /** What ends a value: its closing tag. */
  readonly ends: readonly string[]
  /** A line break behind the opening and before the closing tag does not belong to the value. */
  readonly trimsLineBreaks: boolean
  /** What a value says, when it is escaped; such a text is given on when it is whole. */
  readonly decode?: (text: string) => string
}

interface ValueReading {
  readonly consumed: number
  /** What stands behind what was consumed, when the value is over. */
  readonly end: string | null
}

export class UnquotedValue {
  readonly #trims: boolean
  readonly #decode: ((text: string) => string) | null
  readonly #end: MarkerScanner
  #isText = false
  #types: ParameterTypes = null
  /** Of a value that is no text all of it; of a text what may still be cut off. */
  #value = ''
  #isBegin = true

  constructor(form: UnquotedValueForm) {
    this.#trims = form.trimsLineBreaks
    this.#decode = form.decode ?? null
    this.#end = new MarkerScanner(form.ends)
  }

  begin(isText: boolean, sink: CallSink): void {
    this.#isText = isText
    this.#types = null
    this.#value = ''
    this.#isBegin = true
    if (isText) sink.arguments('"')
  }

  /** By the schema of the tool. */
  beginOf(tools: readonly OfferedTool[], tool: string, key: string, sink: CallSink): void {
    const types = parameterTypes(tools, tool, key)
    this.begin(isTextOnly(types), sink)
    this.#types = types
  }

  read(text: string, sink: CallSink): ValueReading {
    const scan = this.#end.scan(text)
    const isEnd = scan.kind === 'marker'
    const piece = isEnd ? scan.before : scan.text
    const isTrimmed = this.#isBegin && this.#trims && piece.startsWith('\n')
    this.#value += isTrimmed ? piece.slice(1) : piece
    if (piece !== '') this.#isBegin = false
    if (this.#isText && this.#decode === null) this.#giveText(isEnd, sink)
    if (!isEnd) return { consumed: piece.length, end: null }
    const written = this.#trims ? this.#value.replace(/\n$/, '') : this.#value
    const value = this.#decode?.(written) ?? written
    sink.arguments(
      this.#isText
        ? `${this.#decode === null ? '' : inQuotes(value)}"`
        : bareValue(value, this.#types),
    )
    return { consumed: piece.length, end: scan.marker }
  }

  /** The output broke off: a text stays as far as it came, of anything else nobody knows what it would have been. */
  breakOff(rest: string, sink: CallSink): void {
    const text = this.#decode?.(this.#value + rest) ?? this.#value + rest
    if (this.#isText && text !== '') sink.arguments(inQuotes(text))
  }

  /** All but what belongs to the next piece: a last line break, and half of a character. */
  #giveText(isEnd: boolean, sink: CallSink): void {
    const cut = isEnd && this.#trims ? /\n$/ : /[\n\ud800-\udbff]$/
    const isCut = (!isEnd || this.#trims) && cut.test(this.#value)
    const text = isCut ? this.#value.slice(0, -1) : this.#value
    if (text !== '') sink.arguments(inQuotes(text))
    this.#value = isEnd ? '' : this.#value.slice(text.length)
  }
}

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
