/** One call of GLM, as its section holds it: `name<arg_key>key</arg_key><arg_value>value</arg_value>`. */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import type { OfferedTool } from './output-event.ts'
import { UnquotedValue } from './unquoted-value.ts'

const KEY_OPEN = '<arg_key>'
const KEY_CLOSE = '</arg_key>'
const VALUE_OPEN = '<arg_value>'
const VALUE_CLOSE = '</arg_value>'
const NAME_MAX = 200
const KEY_MAX = 1000

export class ArgKeyCallReader implements CallReader {
  readonly #tools: readonly OfferedTool[]
  readonly #close: string
  readonly #value = new UnquotedValue({ ends: [VALUE_CLOSE], trimsLineBreaks: true })
  #place: 'name' | 'members' | 'value' | 'over' = 'name'
  #name = ''
  #isFirstMember = true
  #read = ''

  /** `close`: ends the section, and so a call without arguments. */
  constructor(tools: readonly OfferedTool[], close: string) {
    this.#tools = tools
    this.#close = close
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

  /** The name is certain when a key, or the end of the section, stands behind it. */
  #readName(text: string, sink: CallSink): Reading {
    const [head = '', name = ''] = /^\s*([^\s<{]*)\s*/.exec(text) ?? []
    const rest = text.slice(head.length)
    const isOver = rest.startsWith(this.#close)
    if (name !== '' && (isOver || rest.startsWith(KEY_OPEN))) {
      this.#name = name
      this.#place = 'members'
      sink.start(name)
      sink.arguments('{')
      return { consumed: head.length, isWrong: isOver }
    }
    const mayFollow = KEY_OPEN.startsWith(rest) || this.#close.startsWith(rest)
    const waits = mayFollow && (rest === '' || name !== '') && name.length <= NAME_MAX
    return { consumed: 0, isWrong: !waits }
  }

  #readKey(text: string, sink: CallSink): Reading {
    const [blanks = ''] = /^\s*/.exec(text) ?? []
    if (blanks !== '') return { consumed: blanks.length, isWrong: false }
    if (text === '' || KEY_OPEN.startsWith(text)) return { consumed: 0, isWrong: false }
    if (!text.startsWith(KEY_OPEN)) return { consumed: 0, isWrong: true }
    const keyEnd = text.indexOf(KEY_CLOSE)
    if (keyEnd < 0) return { consumed: 0, isWrong: text.length > KEY_MAX }
    const behind = text.slice(keyEnd + KEY_CLOSE.length)
    const value = behind.trimStart()
    if (!value.startsWith(VALUE_OPEN)) {
      return { consumed: 0, isWrong: !VALUE_OPEN.startsWith(value) }
    }
    const key = text.slice(KEY_OPEN.length, keyEnd).trim()
    sink.arguments(`${this.#isFirstMember ? '' : ','}${JSON.stringify(key)}:`)
    this.#isFirstMember = false
    this.#value.beginOf(this.#tools, this.#name, key, sink)
    this.#place = 'value'
    return { consumed: text.length - value.length + VALUE_OPEN.length, isWrong: false }
  }
}
