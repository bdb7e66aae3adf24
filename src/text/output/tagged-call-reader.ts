/**
 * Calls written with tags around names and values, as Qwen3-Coder, MiniMax and DeepSeek (from 3.2 on) do. Values stand
 * there without quotes; the JSON of the arguments is made here, member by member, texts as they come.
 */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { OfferedTool } from './output-event.ts'
import { bareValue, isTextParameter } from './parameter-value.ts'

export interface TaggedCallForm {
  /** One opening tag each; the first group is the name. */
  readonly call: RegExp
  readonly parameter: RegExp
  readonly callEnd: string
  readonly parameterEnd: string
  /** A line break behind the opening and before the closing tag does not belong to the value. */
  readonly trimsLineBreaks: boolean
}

const TAG_MAX = 300

export class TaggedCallReader implements CallReader {
  readonly #form: TaggedCallForm
  readonly #tools: readonly OfferedTool[]
  readonly #valueEnd: MarkerScanner
  #place: 'between' | 'members' | 'value' = 'between'
  #tool = ''
  #isText = false
  /** Of a value that is no text all of it; of a text what may still be cut off. */
  #value = ''
  #isFirstMember = true
  #isValueBegin = false
  #callCount = 0
  #read = ''

  constructor(form: TaggedCallForm, tools: readonly OfferedTool[]) {
    this.#form = form
    this.#tools = tools
    this.#valueEnd = new MarkerScanner([form.parameterEnd])
  }

  get unclaimed(): string {
    return this.#callCount === 0 ? this.#read : ''
  }

  get isInArguments(): boolean {
    return this.#place === 'value'
  }

  read(text: string, sink: CallSink): Reading {
    let at = 0
    for (;;) {
      const step =
        this.#place === 'value'
          ? this.#readValue(text.slice(at), sink)
          : this.#readTag(text.slice(at), sink)
      if (this.#callCount === 0) this.#read += text.slice(at, at + step.consumed)
      at += step.consumed
      if (step.isWrong || step.consumed === 0) return { consumed: at, isWrong: step.isWrong }
    }
  }

  /** A call whose last member is whole needs only its brace; a value that broke off stays as it is. */
  end(sink: CallSink, rest: string): void {
    if (this.#place === 'members') this.#endCall(sink)
    else if (this.#place === 'value') {
      const text = this.#value + rest
      if (this.#isText && text !== '') sink.arguments(inQuotes(text))
      sink.end()
    }
    this.#place = 'between'
  }

  #readTag(text: string, sink: CallSink): Reading {
    const blanks = /^\s+/.exec(text)?.[0].length ?? 0
    if (blanks > 0) return { consumed: blanks, isWrong: false }
    if (text !== '' && !text.startsWith('<')) return { consumed: 0, isWrong: true }
    const end = text.indexOf('>') + 1
    if (end === 0) return { consumed: 0, isWrong: text.length > TAG_MAX }
    const isKnown = this.#takesTag(text.slice(0, end), sink)
    return { consumed: isKnown ? end : 0, isWrong: !isKnown }
  }

  #takesTag(tag: string, sink: CallSink): boolean {
    if (this.#place === 'between') {
      const name = this.#form.call.exec(tag)?.[1]
      if (name === undefined) return false
      this.#tool = name
      this.#isFirstMember = true
      this.#callCount += 1
      this.#place = 'members'
      sink.start(name)
      sink.arguments('{')
      return true
    }
    if (tag === this.#form.callEnd) {
      this.#endCall(sink)
      return true
    }
    const [, key, isText] = this.#form.parameter.exec(tag) ?? []
    if (key === undefined) return false
    this.#beginValue(key.trim(), isText, sink)
    return true
  }

  #endCall(sink: CallSink): void {
    sink.arguments('}')
    sink.end()
    this.#place = 'between'
  }

  /** `isText`: what the tag itself says of it. */
  #beginValue(key: string, isText: string | undefined, sink: CallSink): void {
    this.#isText =
      isText === undefined ? isTextParameter(this.#tools, this.#tool, key) : isText === 'true'
    this.#value = ''
    this.#place = 'value'
    sink.arguments(
      `${this.#isFirstMember ? '' : ','}${JSON.stringify(key)}:${this.#isText ? '"' : ''}`,
    )
    this.#isFirstMember = false
    this.#isValueBegin = true
  }

  #readValue(text: string, sink: CallSink): Reading {
    const scan = this.#valueEnd.scan(text)
    const isEnd = scan.kind === 'marker'
    const piece = isEnd ? scan.before : scan.text
    const isTrimmed = this.#isValueBegin && this.#form.trimsLineBreaks && piece.startsWith('\n')
    this.#value += isTrimmed ? piece.slice(1) : piece
    if (piece !== '') this.#isValueBegin = false
    if (this.#isText) this.#giveText(isEnd, sink)
    if (!isEnd) return { consumed: piece.length, isWrong: false }
    const value = this.#form.trimsLineBreaks ? this.#value.replace(/\n$/, '') : this.#value
    sink.arguments(this.#isText ? '"' : bareValue(value))
    this.#place = 'members'
    return { consumed: piece.length + scan.marker.length, isWrong: false }
  }

  /** All but what belongs to the next piece: a last line break, and half of a character. */
  #giveText(isEnd: boolean, sink: CallSink): void {
    const cut = isEnd && this.#form.trimsLineBreaks ? /\n$/ : /[\n\ud800-\udbff]$/
    const isCut = (!isEnd || this.#form.trimsLineBreaks) && cut.test(this.#value)
    const text = isCut ? this.#value.slice(0, -1) : this.#value
    if (text !== '') sink.arguments(inQuotes(text))
    this.#value = isEnd ? '' : this.#value.slice(text.length)
  }
}

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
