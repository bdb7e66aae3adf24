/**
 * Refuses grammars that repeat very often what can be empty, such as `("a"?){300}`: llama.cpp tries all ways to divide
 * a text among the repetitions and needs seconds to minutes for one token, in which no other request continues.
 */
import { BatonError } from '../../base/index.ts'
import { invalid } from './grammar-refusal.ts'
import { parseGbnf } from './gbnf-syntax.ts'
import type { GbnfNode } from './gbnf-syntax.ts'

/** Of repetitions within repetitions the product. */
const TIMES_MAX = 32

/** Throws `request.invalid_argument`. A grammar that cannot be read here is judged by the engine. */
export function checkEmptyRepeats(gbnf: string): void {
  const rules = rulesOf(gbnf)
  if (rules !== null) new EmptyRepeats(rules).check()
}

function rulesOf(gbnf: string): ReadonlyMap<string, GbnfNode> | null {
  try {
    return parseGbnf(gbnf)
  } catch (thrown) {
    if (thrown instanceof BatonError) return null
    throw thrown
  }
}

class EmptyRepeats {
  readonly #rules: ReadonlyMap<string, GbnfNode>
  readonly #empty = new Set<string>()
  readonly #seen = new Set<string>()

  constructor(rules: ReadonlyMap<string, GbnfNode>) {
    this.#rules = rules
    for (let isChanged = true; isChanged;) {
      isChanged = false
      for (const [name, node] of rules) {
        if (this.#empty.has(name) || !this.#canBeEmpty(node)) continue
        this.#empty.add(name)
        isChanged = true
      }
    }
  }

  check(): void {
    for (const name of this.#rules.keys()) this.#rule(name, 1)
  }

  #canBeEmpty(node: GbnfNode): boolean {
    switch (node.kind) {
      case 'class':
        return false
      case 'rule':
        return this.#empty.has(node.name)
      case 'sequence':
        return node.parts.every((part) => this.#canBeEmpty(part))
      case 'choice':
        return node.options.some((option) => this.#canBeEmpty(option))
      case 'repeat':
        return node.least === 0 || this.#canBeEmpty(node.part)
    }
  }

  #rule(name: string, times: number): void {
    const key = `${name} ${times}`
    const node = this.#rules.get(name)
    if (this.#seen.has(key) || node === undefined) return
    this.#seen.add(key)
    this.#visit(node, times)
  }

  /** `times`: how often the node may be repeated by repetitions around it of what can be empty. */
  #visit(node: GbnfNode, times: number): void {
    switch (node.kind) {
      case 'class':
        return
      case 'rule':
        if (times > 1) this.#rule(node.name, times)
        return
      case 'sequence':
        for (const part of node.parts) this.#visit(part, times)
        return
      case 'choice':
        for (const option of node.options) this.#visit(option, times)
        return
      case 'repeat': {
        // Without a limit it is left recursion, which llama.cpp refuses.
        const isHard = Number.isFinite(node.most) && this.#canBeEmpty(node.part)
        const all = isHard ? times * Math.max(1, node.most) : times
        if (all > TIMES_MAX)
          throw invalid(
            `the grammar repeats ${all} times what can be empty, the limit is ${TIMES_MAX}: leave out the empty case, as in "a"{0,300} for ("a"?){300}`,
          )
        this.#visit(node.part, all)
      }
    }
  }
}
