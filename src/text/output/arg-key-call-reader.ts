/** Reads one call of GLM and similar models: `name<arg_key>key</arg_key><arg_value>value</arg_value>`. */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import type { OfferedTool } from './output-event.ts'
import { UnquotedValue } from './unquoted-value.ts'

type TagPair = readonly [open: string, close: string]

export interface ArgKeyCallForm {
  readonly key: TagPair
  readonly value: TagPair
  /** Tags between a key and its value that contain the type of the value: `string` or another type. */
  readonly type?: TagPair
  /** A separator after the name, without meaning. */
  readonly separator?: string
}

const NAME_MAX = 200
const KEY_MAX = 1000

export class ArgKeyCallReader implements CallReader {
  readonly #tools: readonly OfferedTool[]
  readonly #form: ArgKeyCallForm
  readonly #close: string
  readonly #value: UnquotedValue
  #place: 'name' | 'members' | 'value' | 'over' = 'name'
  #name = ''
  #isFirstMember = true
  #read = ''

  /** `close`: the end of the section, which also ends a call without arguments. */
  constructor(form: ArgKeyCallForm, tools: readonly OfferedTool[], close: string) {
    this.#form = form
    this.#tools = tools
    this.#close = close
    this.#value = new UnquotedValue({ ends: [form.value[1]], trimsLineBreaks: true })
  }

  get unclaimed(): string {
    return this.#place === 'name' ? this.#read : ''
  }

  get isInArguments(): boolean {
    return this.#place === 'value'
  }

  read(text: string, sink: CallSink): Reading {
    let at = 0
    for (;;) {
      const place = this.#place
      const step = this.#step(text.slice(at), sink)
      if (place === 'name') this.#read += text.slice(at, at + step.consumed)
      at += step.consumed
      const isWaiting = step.consumed === 0 && this.#place === place
      if (step.isWrong || isWaiting) return { consumed: at, isWrong: step.isWrong }
    }
  }

  end(sink: CallSink, rest: string): void {
    if (this.#place === 'value') this.#value.breakOff(rest, sink)
    else if (this.#place === 'members') sink.arguments('}')
    if (this.#place === 'value' || this.#place === 'members') sink.end()
    if (this.#place !== 'name') this.#place = 'over'
  }

  #step(text: string, sink: CallSink): Reading {
    switch (this.#place) {
      case 'name':
        return this.#readName(text, sink)
      case 'members':
        return this.#readKey(text, sink)
      case 'value': {
        const { consumed, end } = this.#value.read(text, sink)
        if (end === null) return { consumed, isWrong: false }
        this.#place = 'members'
        return { consumed: consumed + end.length, isWrong: false }
      }
      case 'over':
        return { consumed: 0, isWrong: true }
    }
  }

  /** The name is complete when a key, the separator or the end of the section follows. */
  #readName(text: string, sink: CallSink): Reading {
    const { separator } = this.#form
    const [head = '', name = ''] = /^\s*([^\s<{]*)\s*/.exec(text) ?? []
    const rest = text.slice(head.length)
    const ends = [this.#form.key[0], this.#close, ...(separator === undefined ? [] : [separator])]
    const end = ends.find((tag) => rest.startsWith(tag))
    if (name !== '' && end !== undefined) {
      this.#name = name
      this.#place = 'members'
      sink.start(name)
      sink.arguments('{')
      const consumed = head.length + (end === separator ? end.length : 0)
      return { consumed, isWrong: end === this.#close }
    }
    const mayFollow = ends.some((tag) => tag.startsWith(rest))
    const waits = mayFollow && (rest === '' || name !== '') && name.length <= NAME_MAX
    return { consumed: 0, isWrong: !waits }
  }

  #readKey(text: string, sink: CallSink): Reading {
    const [open, close] = this.#form.key
    const [blanks = ''] = /^\s*/.exec(text) ?? []
    if (blanks !== '') return { consumed: blanks.length, isWrong: false }
    if (text === '' || open.startsWith(text)) return { consumed: 0, isWrong: false }
    if (!text.startsWith(open)) return { consumed: 0, isWrong: true }
    const keyEnd = text.indexOf(close)
    if (keyEnd < 0) return { consumed: 0, isWrong: text.length > KEY_MAX }
    const behind = text.slice(keyEnd + close.length).trimStart()
    const type = this.#typeAt(behind)
    const value = type === null ? behind : behind.slice(type.length).trimStart()
    const [valueOpen] = this.#form.value
    if (!value.startsWith(valueOpen)) {
      const waits = valueOpen.startsWith(value) || (type === null && this.#mayBeType(behind))
      return { consumed: 0, isWrong: !waits || text.length > KEY_MAX }
    }
    const key = text.slice(open.length, keyEnd).trim()
    sink.arguments(`${this.#isFirstMember ? '' : ','}${JSON.stringify(key)}:`)
    this.#isFirstMember = false
    if (type === null) this.#value.beginOf(this.#tools, this.#name, key, sink)
    else this.#value.begin(type.name === 'string', sink)
    this.#place = 'value'
    return { consumed: text.length - value.length + valueOpen.length, isWrong: false }
  }

  /** The type at the beginning of the text, and its length including the tags. */
  #typeAt(text: string): { readonly name: string; readonly length: number } | null {
    const [open, close] = this.#form.type ?? ['', '']
    const end = open !== '' && text.startsWith(open) ? text.indexOf(close) : -1
    if (end < 0) return null
    return { name: text.slice(open.length, end).trim(), length: end + close.length }
  }

  #mayBeType(text: string): boolean {
    const open = this.#form.type?.[0]
    return open !== undefined && (open.startsWith(text) || text.startsWith(open))
  }
}
