/**
 * Reads calls written with tags around names and values, as Qwen3-Coder, MiniMax and DeepSeek (since 3.2) do. Values
 * have no quotes; the JSON of the arguments is built member by member, strings as they arrive. Instead of members a
 * call may contain its arguments as one JSON object.
 */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { JsonScanner } from './json-scanner.ts'
import type { OfferedTool } from './output-event.ts'
import { parameterTypes } from './parameter-value.ts'
import { UnquotedValue } from './unquoted-value.ts'

export interface TaggedCallForm {
  /** Matches one opening tag; the first non-empty group is the name. A call's tag that ends with `/>` is complete. */
  readonly call: RegExp
  /** The second group, if present, is the type: `true` or `string` means string. */
  readonly parameter: RegExp
  readonly callEnd: string
  readonly parameterEnd: string
  /** A line break after the opening and before the closing tag is not part of the value. */
  readonly trimsLineBreaks: boolean
  /** Markers that end a value without a closing tag; they are then parsed as usual. */
  readonly valueBreaks?: readonly string[]
  /** Text around calls without meaning. None may be a prefix of another. */
  readonly fillers?: readonly string[]
  /** Closing tags of a section that may appear without its opening tag. */
  readonly sectionEnds?: readonly string[]
  /** The end of a tag, if it is not `>`. */
  readonly tagEnd?: string
  /** Decodes a name or key that is escaped in its tag. */
  readonly decodeName?: (text: string) => string
  /** Decodes an escaped value; such a value is passed on when it is complete. */
  readonly decodeValue?: (text: string) => string
}

const TAG_MAX = 300

/** The plain text with which an expression begins. */
const PLAIN_BEGIN = /^\^(<[^\\()[\].*+?|]+)/

export class TaggedCallReader implements CallReader {
  readonly #form: TaggedCallForm
  readonly #tools: readonly OfferedTool[]
  readonly #value: UnquotedValue
  #place: 'between' | 'members' | 'value' | 'json' | 'closing' = 'between'
  #json = new JsonScanner()
  #tool = ''
  #isFirstMember = true
  #callCount = 0
  #read = ''
  /** The beginning of the first call's tag, if it opened the section. */
  #opening: string
  readonly #isBare: boolean

  /** `opening`: empty, or the beginning of a call's tag if the section has no marker of its own. */
  constructor(form: TaggedCallForm, tools: readonly OfferedTool[], opening = '') {
    this.#form = form
    this.#tools = tools
    this.#opening = opening
    this.#isBare = opening !== ''
    this.#value = new UnquotedValue({
      ends: [form.parameterEnd, ...(form.valueBreaks ?? [])],
      trimsLineBreaks: form.trimsLineBreaks,
      ...(form.decodeValue === undefined ? {} : { decode: form.decodeValue }),
    })
  }

  get unclaimed(): string {
    return this.#callCount === 0 ? this.#read : ''
  }

  get nextCall(): string | null {
    if (this.#place !== 'between' || this.#callCount === 0) return null
    return PLAIN_BEGIN.exec(this.#form.call.source)?.[1] ?? null
  }

  get isInArguments(): boolean {
    return this.#place === 'value' || this.#place === 'json'
  }

  read(text: string, sink: CallSink): Reading {
    let at = 0
    for (;;) {
      const place = this.#place
      const step = this.#step(text.slice(at), sink)
      if (this.#callCount === 0) this.#read += text.slice(at, at + step.consumed)
      at += step.consumed
      const isStuck = step.consumed === 0 && this.#place === place
      if (step.isWrong || isStuck) return { consumed: at, isWrong: step.isWrong }
    }
  }

  /** A call whose last member is complete needs only its brace; an incomplete value is kept as it is. */
  end(sink: CallSink, rest: string): void {
    if (this.#place === 'members' || this.#place === 'closing') this.#endCall(sink)
    else if (this.#place === 'value') this.#value.breakOff(rest, sink)
    else if (this.#place === 'json' && rest !== '') sink.arguments(rest)
    if (this.isInArguments) sink.end()
    this.#place = 'between'
  }

  #step(text: string, sink: CallSink): Reading {
    if (this.#place === 'value') return this.#readValue(text, sink)
    return this.#place === 'json' ? this.#readJson(text, sink) : this.#readTag(text, sink)
  }

  #readTag(text: string, sink: CallSink): Reading {
    const opening = this.#opening
    const blanks = opening === '' ? (/^\s+/.exec(text)?.[0].length ?? 0) : 0
    if (blanks > 0) return { consumed: blanks, isWrong: false }
    const filler = this.#place === 'between' ? this.#fillerAt(text) : null
    if (filler !== null) return { consumed: filler, isWrong: false }
    if (this.#place === 'members' && this.#isFirstMember && text.startsWith('{')) {
      this.#json = new JsonScanner()
      // The opening brace has already been reported with the call.
      this.#json.read('{', 0)
      this.#place = 'json'
      return { consumed: 1, isWrong: false }
    }
    if (text !== '' && !(opening + text).startsWith('<')) return { consumed: 0, isWrong: true }
    const { tagEnd = '>' } = this.#form
    const at = text.indexOf(tagEnd)
    if (at < 0) return { consumed: 0, isWrong: text.length > TAG_MAX }
    const end = at + tagEnd.length
    const isKnown = this.#takesTag(opening + text.slice(0, end), sink)
    if (isKnown) this.#opening = ''
    return { consumed: isKnown ? end : 0, isWrong: !isKnown }
  }

  #takesTag(tag: string, sink: CallSink): boolean {
    if (this.#place === 'between') {
      const isEnd = this.#form.sectionEnds?.includes(tag) === true
      if (this.#isBare && this.#callCount > 0 && isEnd) return true
      const written = this.#form.call.exec(tag)?.slice(1).find(isGroup)
      if (written === undefined) return false
      const name = this.#form.decodeName?.(written) ?? written
      // Without the section's marker a tag is a call only if the tool is offered.
      if (this.#isBare && !this.#tools.some((tool) => tool.name === name)) return false
      this.#tool = name
      this.#isFirstMember = true
      this.#callCount += 1
      this.#place = 'members'
      sink.start(name)
      sink.arguments('{')
      if (tag.endsWith('/>')) this.#endCall(sink)
      return true
    }
    if (tag === this.#form.callEnd) {
      this.#endCall(sink)
      return true
    }
    const [, key, type] = this.#form.parameter.exec(tag) ?? []
    if (key === undefined || this.#place === 'closing') return false
    this.#beginValue((this.#form.decodeName?.(key) ?? key).trim(), type, sink)
    return true
  }

  #endCall(sink: CallSink): void {
    if (this.#place === 'members') sink.arguments('}')
    sink.end()
    this.#place = 'between'
  }

  /** Length of a filler; 0: the text may become one; null: none. */
  #fillerAt(text: string): number | null {
    for (const filler of this.#form.fillers ?? []) {
      if (text.startsWith(filler)) return filler.length
      if (text !== '' && filler.startsWith(text)) return 0
    }
    return null
  }

  /** `type`: the type given in the tag. */
  #beginValue(key: string, type: string | undefined, sink: CallSink): void {
    this.#place = 'value'
    sink.arguments(`${this.#isFirstMember ? '' : ','}${JSON.stringify(key)}:`)
    this.#isFirstMember = false
    const isText = type === 'true' || type === 'string'
    // Models also call values strings that the schema does not allow to be one.
    const isByTag = type !== undefined && !(isText && this.#isNoText(key))
    if (isByTag) this.#value.begin(isText, sink)
    else this.#value.beginOf(this.#tools, this.#tool, key, sink)
  }

  #isNoText(key: string): boolean {
    return parameterTypes(this.#tools, this.#tool, key)?.has('string') === false
  }

  #readJson(text: string, sink: CallSink): Reading {
    const consumed = this.#json.read(text, 0)
    if (this.#json.output !== '') sink.arguments(this.#json.output)
    if (this.#json.isDone) this.#place = 'closing'
    return { consumed, isWrong: this.#json.isWrong }
  }

  #readValue(text: string, sink: CallSink): Reading {
    const { consumed, end } = this.#value.read(text, sink)
    if (end === null) return { consumed, isWrong: false }
    this.#place = 'members'
    const isBreak = end !== this.#form.parameterEnd
    return { consumed: consumed + (isBreak ? 0 : end.length), isWrong: false }
  }
}

function isGroup(group: string | undefined): group is string {
  return group !== undefined
}
