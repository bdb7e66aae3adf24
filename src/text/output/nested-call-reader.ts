/**
 * Reads calls whose arguments are nested elements, as MiniMax M3 writes them: `<key>value</key>`, `<item>` in lists,
 * with a mark before each tag, so that texts may contain anything. The elements are converted to JSON as they arrive.
 */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { OfferedTool } from './output-event.ts'
import { bareValue, childSchema, isTextOnly, typesOf } from './parameter-value.ts'
import type { ParameterTypes } from './parameter-value.ts'

interface Element {
  readonly tag: string
  readonly schema: unknown
  readonly types: ParameterTypes
  /** A text is passed on as it arrives; an element is `open` until its first child, or its end, determines the kind. */
  kind: 'open' | 'text' | 'object' | 'list'
  value: string
  hasChild: boolean
}

const TAG_MAX = 300
const ITEM = 'item'
const INVOKE = /^<invoke\s+name="([^"]+)"\s*>$/

export class NestedCallReader implements CallReader {
  readonly #mark: string
  readonly #marks: MarkerScanner
  readonly #tools: readonly OfferedTool[]
  #root: unknown = undefined
  /** Open elements, the call itself first. */
  #open: Element[] = []
  #callCount = 0
  #read = ''

  /** `mark`: precedes each tag. */
  constructor(mark: string, tools: readonly OfferedTool[]) {
    this.#mark = mark
    this.#marks = new MarkerScanner([mark])
    this.#tools = tools
  }

  get unclaimed(): string {
    return this.#callCount === 0 ? this.#read : ''
  }

  get isInArguments(): boolean {
    return this.#open.length > 0
  }

  read(text: string, sink: CallSink): Reading {
    let at = 0
    for (;;) {
      const step = this.#step(text.slice(at), sink)
      if (this.#callCount === 0) this.#read += text.slice(at, at + step.consumed)
      at += step.consumed
      if (step.isWrong || step.consumed === 0) return { consumed: at, isWrong: step.isWrong }
    }
  }

  /**
   * Between members only the brace is missing; an incomplete text is kept as it is; any other incomplete value is
   * dropped.
   */
  end(sink: CallSink, rest: string): void {
    const top = this.#open.at(-1)
    if (top === undefined) return
    if (top.kind === 'text' && rest !== '') sink.arguments(inQuotes(rest))
    if (this.#open.length === 1) sink.arguments('}')
    sink.end()
    this.#open = []
  }

  #step(text: string, sink: CallSink): Reading {
    const top = this.#open.at(-1)
    const scan = this.#marks.scan(text)
    const value = scan.kind === 'marker' ? scan.before : scan.text
    if (value !== '') {
      const isTaken = top === undefined ? value.trim() === '' : takesValue(top, value, sink)
      return isTaken ? { consumed: value.length, isWrong: false } : { consumed: 0, isWrong: true }
    }
    if (scan.kind === 'text') return { consumed: 0, isWrong: false }
    const behind = text.slice(this.#mark.length)
    const tags = behind.trimStart()
    const end = tags.indexOf('>') + 1
    if (tags !== '' && !tags.startsWith('<')) return { consumed: 0, isWrong: true }
    if (end === 0) return { consumed: 0, isWrong: behind.length > TAG_MAX }
    const isKnown = this.#takesTag(tags.slice(0, end), top, sink)
    const consumed = text.length - tags.length + end
    return isKnown ? { consumed, isWrong: false } : { consumed: 0, isWrong: true }
  }

  #takesTag(tag: string, top: Element | undefined, sink: CallSink): boolean {
    if (top === undefined) return this.#beginCall(tag, sink)
    const name = tag.slice(1, -1).trim()
    if (!name.startsWith('/')) return this.#beginElement(name, top, sink)
    if (name.slice(1).trim() !== top.tag) return false
    this.#open.pop()
    endElement(top, sink)
    if (this.#open.length === 0) sink.end()
    return true
  }

  #beginCall(tag: string, sink: CallSink): boolean {
    const name = INVOKE.exec(tag)?.[1]
    if (name === undefined) return false
    this.#callCount += 1
    this.#root = this.#tools.find((tool) => tool.name === name)?.parameters
    const call = elementOf('invoke', this.#root, this.#root)
    this.#open = [{ ...call, kind: 'object' }]
    sink.start(name)
    sink.arguments('{')
    return true
  }

  #beginElement(tag: string, parent: Element, sink: CallSink): boolean {
    if (parent.kind === 'text' || parent.value.trim() !== '') return false
    if (parent.kind === 'open') {
      const isList = tag === ITEM && parent.types?.has('object') !== true
      parent.kind = isList ? 'list' : 'object'
      sink.arguments(isList ? '[' : '{')
    }
    const key = parent.kind === 'list' ? '' : `${JSON.stringify(tag)}:`
    sink.arguments(`${parent.hasChild ? ',' : ''}${key}`)
    parent.hasChild = true
    const step = parent.kind === 'list' ? null : tag
    const child = elementOf(tag, childSchema(parent.schema, step, this.#root), this.#root)
    if (child.kind === 'text') sink.arguments('"')
    this.#open.push(child)
    return true
  }
}

function elementOf(tag: string, schema: unknown, root: unknown): Element {
  const types = schema === undefined ? null : typesOf(schema, root)
  const kind = isTextOnly(types) ? 'text' : 'open'
  return { tag, schema, types, kind, value: '', hasChild: false }
}

/** Blanks between the elements of an object or list are ignored. */
function takesValue(top: Element, value: string, sink: CallSink): boolean {
  if (top.kind === 'text') sink.arguments(inQuotes(value))
  else if (top.kind === 'open') top.value += value
  else return value.trim() === ''
  return true
}

function endElement(element: Element, sink: CallSink): void {
  const { kind, types, value } = element
  if (kind === 'text') sink.arguments('"')
  else if (kind === 'object') sink.arguments('}')
  else if (kind === 'list') sink.arguments(']')
  else if (value === '' && types?.has('array') === true) sink.arguments('[]')
  else if (value === '' && types?.has('object') === true) sink.arguments('{}')
  else sink.arguments(bareValue(value, types))
}

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
