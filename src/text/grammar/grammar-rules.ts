/**
 * The rules of a grammar while a JSON schema is written: one rule for all uses of a reference, the detection of
 * references that refer to themselves or never end, and rules that are taken back because nothing is valid there.
 */
import { heightsOf } from '../gbnf/gbnf-heights.ts'
import { GBNF_LENGTH_MAX } from '../gbnf/gbnf-limits.ts'
import { parseGbnf } from '../gbnf/gbnf-syntax.ts'
import {
  invalidSchema,
  nothingValid,
  NothingValid,
  schemaTooLarge,
} from '../gbnf/grammar-refusal.ts'
import type { SchemaPlace } from './json-schema-place.ts'

const RULES_MAX = 5000

export class GrammarRules {
  readonly #rules: string[] = []
  readonly #place: SchemaPlace
  readonly #endless: ReadonlySet<string>
  /** Of references, and of schemas that were merged with one. */
  readonly #names = new Map<string, string>()
  /** References whose rules are being written and whose texts need what is being written. */
  #needing = new Set<string>()
  /** Those of them that have produced no text yet; to detect a reference to itself. */
  #open = new Set<string>()
  #mayBeEndless = false
  #nameCount = 0
  /** Characters of all rules, also of those that were taken back. */
  #length = 0

  /** `endless`: references of which no text ever ends, as found by `endless()` of an earlier pass. */
  constructor(place: SchemaPlace, endless: ReadonlySet<string>) {
    this.#place = place
    this.#endless = endless
  }

  /** All rules, as a part of a grammar. */
  get text(): string {
    return this.#rules.join('')
  }

  /** The references and merged schemas of which no text ends, by the grammar's rules. */
  endless(gbnf: string): ReadonlySet<string> {
    if (!this.#mayBeEndless) return new Set()
    const heights = heightsOf(parseGbnf(gbnf))
    return new Set([...this.#names].filter(([, name]) => !heights.has(name)).map(([key]) => key))
  }

  /** One rule for all uses of a schema, which may contain itself. */
  shared(key: string, place: string, write: () => string): string {
    if (this.#endless.has(key)) throw nothingValid()
    const known = this.#names.get(key)
    if (known !== undefined) {
      if (this.#open.has(known)) throw invalidSchema(`'${place}' refers to itself`)
      if (this.#needing.has(known)) this.#mayBeEndless = true
      return known
    }
    const name = `ref-${this.#nameCount++}`
    this.#names.set(key, name)
    this.#open.add(name)
    this.#needing.add(name)
    const body = this.#place.inside(place, write)
    this.#open.delete(name)
    this.#needing.delete(name)
    this.#rules.push(`${name} ::= ${body}\n`)
    return name
  }

  /** After a bracket or comma some text has been produced, so a reference may be recursive. */
  within<T>(part: string, write: () => T): T {
    const open = this.#open
    this.#open = new Set()
    try {
      return this.#place.inside(part, write)
    } finally {
      this.#open = open
    }
  }

  /** The same for what a text does not need. */
  optional(write: () => string): string | null {
    const needing = this.#needing
    this.#needing = new Set()
    try {
      return this.possible(write)
    } finally {
      this.#needing = needing
    }
  }

  /** Null: nothing is valid there. What was written for it is taken back. */
  possible(write: () => string): string | null {
    const { length: ruleCount } = this.#rules
    const { length: depth } = this.#place.path
    const { size: nameCount } = this.#names
    try {
      return write()
    } catch (thrown) {
      if (!(thrown instanceof NothingValid)) throw thrown
      this.#rules.length = ruleCount
      this.#place.path.length = depth
      for (const [key, name] of [...this.#names].slice(nameCount)) {
        this.#names.delete(key)
        this.#open.delete(name)
        this.#needing.delete(name)
      }
      return null
    }
  }

  /** A repeated expression becomes a rule, because llama.cpp expands repetitions. */
  named(expression: string): string {
    return /^[\w-]+$/.test(expression) ? expression : this.rule(expression)
  }

  rule(body: string): string {
    const name = `rule-${this.#rules.length}`
    this.#push(`${name} ::= ${body}\n`)
    return name
  }

  readonly define = (write: (name: string) => string | null): string | null => {
    const name = `text-${this.#nameCount++}`
    const rules = write(name)
    if (rules === null) return null
    this.#push(rules)
    return name
  }

  #push(rule: string): void {
    this.#length += rule.length
    if (this.#rules.length >= RULES_MAX || this.#length > GBNF_LENGTH_MAX)
      throw schemaTooLarge('it is too large')
    this.#rules.push(rule)
  }
}
