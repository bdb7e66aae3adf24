/**
 * Reads a value without quotes, up to its closing tag: a string is passed on as it arrives, any other value when it
 * is complete.
 */
import type { CallSink } from './call-reader.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { OfferedTool } from './output-event.ts'
import { bareValue, isTextOnly, parameterTypes } from './parameter-value.ts'
import type { ParameterTypes } from './parameter-value.ts'

interface UnquotedValueForm {
  /** The closing tags that end a value. */
  readonly ends: readonly string[]
  /** A line break after the opening and before the closing tag is not part of the value. */
  readonly trimsLineBreaks: boolean
  /** Decodes an escaped value; such a string is passed on when it is complete. */
  readonly decode?: (text: string) => string
}

interface ValueReading {
  readonly consumed: number
  /** The closing tag after the consumed text, if the value has ended. */
  readonly end: string | null
}

export class UnquotedValue {
  readonly #trims: boolean
  readonly #decode: ((text: string) => string) | null
  readonly #end: MarkerScanner
  #isText = false
  #types: ParameterTypes = null
  /** For a string the part that may still be cut off, otherwise the whole value. */
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

  /** Starts a value with the type from the tool's schema. */
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
    if (this.#isText && this.#decode === null) this.#emitText(isEnd, sink)
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

  /** The output ended inside the value: an incomplete string is kept, any other value is dropped. */
  breakOff(rest: string, sink: CallSink): void {
    const text = this.#decode?.(this.#value + rest) ?? this.#value + rest
    if (this.#isText && text !== '') sink.arguments(inQuotes(text))
  }

  /** Passes on everything except a trailing line break and half a surrogate pair. */
  #emitText(isEnd: boolean, sink: CallSink): void {
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
