/**
 * Generates a random text of a grammar: the output of an engine without a model that is constrained to a shape.
 *
 * The text always ends: beyond the wanted length, and at great depth, only the shortest alternatives are taken.
 */
import { invalid } from './grammar-refusal.ts'
import { heightOf, heightsOf } from './gbnf-heights.ts'
import { parseGbnf } from './gbnf-syntax.ts'
import type { GbnfNode } from './gbnf-syntax.ts'

const DEPTH_MAX = 60
/** Maximum number of repetitions beyond the minimum. */
const EXTRA_MAX = 6
/** A text that has to be longer than this is not generated. */
const LENGTH_MAX = 100_000
const LETTERS = 'etaoinshrdlucmfwypvbgkqjxz '
const OTHERS = '0123456789ETAOIN-_.,:;!?/()[]{}<>+=*&%$#@^~|\'`"\\\n\t'

/** `random` returns numbers in [0, 1). Throws `request.invalid_argument` if the grammar cannot be parsed. */
export function textOfGrammar(gbnf: string, random: () => number, lengthWanted: number): string {
  return new GrammarWriter(parseGbnf(gbnf), random, lengthWanted).text()
}

class GrammarWriter {
  readonly #rules: ReadonlyMap<string, GbnfNode>
  readonly #random: () => number
  readonly #lengthWanted: number
  readonly #heights: ReadonlyMap<string, number>
  #text = ''

  constructor(rules: ReadonlyMap<string, GbnfNode>, random: () => number, lengthWanted: number) {
    this.#rules = rules
    this.#random = random
    this.#lengthWanted = lengthWanted
    this.#heights = heightsOf(rules)
    if (!this.#heights.has('root')) throw invalid('the grammar is invalid: it has no finite text')
  }

  text(): string {
    // A list instead of recursion: texts up to a closing tag nest as deeply as they are long.
    const open: { readonly node: GbnfNode; readonly depth: number }[] = [
      { node: { kind: 'rule', name: 'root' }, depth: 0 },
    ]
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { node, depth } = next
      const parts = this.#parts(node, depth)
      for (const part of parts.toReversed()) open.push({ node: part, depth: depth + 1 })
      if (this.#text.length > LENGTH_MAX)
        throw invalid('the grammar is invalid: its texts are too long')
    }
    return this.#text
  }

  /** The nodes that replace a node; a character is written at once. */
  #parts(node: GbnfNode, depth: number): readonly GbnfNode[] {
    const isLong = this.#text.length >= this.#lengthWanted || depth > DEPTH_MAX + this.#text.length
    switch (node.kind) {
      case 'class':
        this.#text += this.#character(node)
        return []
      case 'rule':
        return [this.#rules.get(node.name) ?? { kind: 'sequence', parts: [] }]
      case 'sequence':
        return node.parts
      case 'choice': {
        const options = isLong ? this.#soonest(node.options) : node.options
        const option = options[Math.floor(this.#random() * options.length)]
        return option === undefined ? [] : [option]
      }
      case 'repeat': {
        const room = Math.min(node.most - node.least, EXTRA_MAX)
        const extra = isLong ? 0 : Math.floor(this.#random() * (room + 1))
        return Array.from({ length: node.least + extra }, () => node.part)
      }
    }
  }

  #soonest(options: readonly GbnfNode[]): readonly GbnfNode[] {
    const heights = options.map((option) => heightOf(option, this.#heights))
    const least = Math.min(...heights)
    return options.filter((_, index) => heights[index] === least)
  }

  #character({ isNegated, ranges }: Extract<GbnfNode, { kind: 'class' }>): string {
    const isIn = (code: number): boolean =>
      ranges.some(([first, last]) => first <= code && code <= last)
    const fits = (letter: string): boolean => isIn(letter.codePointAt(0) ?? 0) !== isNegated
    const drawn = LETTERS[Math.floor(this.#random() * LETTERS.length)] ?? 'e'
    if (fits(drawn)) return drawn
    const known = Array.from(LETTERS + OTHERS).filter(fits)
    if (known.length > 0) return known[Math.floor(this.#random() * known.length)] ?? ''
    const [range] = ranges
    if (isNegated || range === undefined) return String.fromCodePoint(firstOutside(isIn))
    const [first, last] = range
    return String.fromCodePoint(
      first + Math.floor(this.#random() * (Math.max(last, first) - first + 1)),
    )
  }
}

function firstOutside(isIn: (code: number) => boolean): number {
  for (let code = 0xa1; code < 0x3000; code++) if (!isIn(code)) return code
  throw invalid('the grammar is invalid: a character class is empty')
}
