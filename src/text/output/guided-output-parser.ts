/**
 * Parses an output that is constrained by the grammar of `model-output-gbnf.ts`: reasoning, then tool calls or the
 * answer.
 *
 * The answer is passed through unchanged: a tag inside it is text, which the parsers for unconstrained output would
 * take for reasoning or a call.
 */
import type { CallForm, ThoughtForm } from '../gbnf/model-output-gbnf.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { OutputEvent, OutputParser } from './output-event.ts'

interface GuidedOutputOptions {
  readonly thought: ThoughtForm | null
  /** The texts with which a call begins. */
  readonly calls: readonly CallForm[]
  /** Parses what begins like a call; null: nothing does. */
  readonly callParser: OutputParser | null
  /** Parses an answer that is itself a call; null: the answer is text. */
  readonly answerParser: OutputParser | null
}

export class GuidedOutputParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #options: GuidedOutputOptions
  readonly #closing: MarkerScanner
  #place: 'begin' | 'thought' | 'gap' | 'rest'
  /** Undefined: not decided yet; null: plain text. */
  #reader: OutputParser | null | undefined
  #held = ''

  constructor(options: GuidedOutputOptions) {
    const { thought, callParser, answerParser } = options
    this.#options = options
    this.#closing = new MarkerScanner(thought?.closes ?? [])
    this.#place = thought === null ? 'gap' : 'begin'
    this.markers = [
      ...(thought?.opens ?? []),
      ...(thought?.closes ?? []),
      ...(callParser?.markers ?? []),
      ...(answerParser?.markers ?? []),
    ]
  }

  push(text: string): readonly OutputEvent[] {
    if (this.#place === 'rest' && this.#reader !== undefined) return this.#read(text)
    this.#held += text
    const events: OutputEvent[] = []
    if (this.#place === 'begin') this.#begin()
    if (this.#place === 'thought') this.#think(events)
    if (this.#place === 'gap') this.#decide(events)
    return events
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    const held = this.#held
    this.#held = ''
    if (this.#place === 'thought') return held === '' ? [] : [{ kind: 'reasoning', text: held }]
    const isBegunHead = this.#place === 'gap' && this.#options.thought?.answerHead !== undefined
    if (isCut === true && isBegunHead) return []
    if (this.#place !== 'rest') this.#reader = this.#options.answerParser
    return [...this.#read(held), ...(this.#reader?.flush(isCut) ?? [])]
  }

  #begin(): void {
    const { opens = [], isInside = false } = this.#options.thought ?? {}
    const begin = this.#held.trimStart()
    const open = openingOf(begin, opens)
    if (open !== undefined && begin.length < open.length) return
    if (open !== undefined) this.#held = begin.slice(open.length)
    this.#place = open !== undefined || isInside ? 'thought' : 'gap'
  }

  #think(events: OutputEvent[]): void {
    const scan = this.#closing.scan(this.#held)
    const thought = scan.kind === 'text' ? scan.text : scan.before
    if (thought !== '') events.push({ kind: 'reasoning', text: thought })
    this.#held = scan.kind === 'text' ? scan.held : scan.after
    if (scan.kind === 'marker') this.#place = 'gap'
  }

  /** Waits for enough text to decide whether this is a call. */
  #decide(events: OutputEvent[]): void {
    const { thought, calls, callParser, answerParser } = this.#options
    const begin = this.#held.trimStart()
    if (begin === '') return
    const heads = calls.map(({ open }) => open)
    const { answerHead } = thought ?? {}
    if (answerHead !== undefined) heads.push(answerHead)
    const head = openingOf(begin, heads)
    if (head !== undefined && begin.length < head.length) return
    const isCall = head !== undefined && head !== answerHead?.trimStart()
    this.#place = 'rest'
    this.#reader = isCall ? callParser : answerParser
    const rest = head !== undefined && !isCall ? begin.slice(head.length) : begin
    this.#held = ''
    events.push(...this.#read(rest))
  }

  #read(text: string): readonly OutputEvent[] {
    if (text === '') return []
    return this.#reader?.push(text) ?? [{ kind: 'text', text }]
  }
}

/** The text that has begun. Blanks before it are not compared: they may be those of the text itself. */
function openingOf(begin: string, texts: readonly string[]): string | undefined {
  return texts
    .map((text) => text.trimStart())
    .find((text) => text.startsWith(begin) || begin.startsWith(text))
}
