/** What the parts of the conversion of one JSON schema share. */
import { exactJson } from '../../base/index.ts'
import { attempted, schemaTooLarge } from '../gbnf/grammar-refusal.ts'
import type { DropKeyword } from '../gbnf/grammar-refusal.ts'
import { RegexBudget } from '../regex/regex-budget.ts'
import { RegexLanguages } from '../regex/regex-language.ts'
import type { Language } from '../regex/regex-language.ts'
import { readRegex } from '../regex/regex-syntax.ts'

/** Longer texts are not compared with patterns. */
const TEXT_MAX = 1000
const FAILURE_STEPS = 50
/** Keywords, names and values that are looked at; about 0.3 s. */
const STEPS_MAX = 500_000

/**
 * Limits the work of converting one JSON schema, because it is done while other requests wait. A short schema can ask
 * for work that doubles with every line, with `allOf` of two references to the next definition.
 */
export class SchemaBudget {
  #left = STEPS_MAX

  /** Throws when nothing is left. */
  spend(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw schemaTooLarge('it is too large')
  }
}

export class SchemaContext {
  readonly drop: DropKeyword
  readonly budget = new RegexBudget()
  readonly #work: SchemaBudget
  readonly #patterns = new Map<string, { languages: RegexLanguages; start: Language }>()

  constructor(drop: DropKeyword, work: SchemaBudget) {
    this.drop = drop
    this.#work = work
  }

  /** Throws when the schema has cost too much. */
  spend(steps: number): void {
    this.#work.spend(steps)
  }

  /** As JSON, to compare values. */
  json(value: unknown): string {
    const text = exactJson(value)
    this.spend(1 + text.length / 32)
    return text
  }

  /** Whether the pattern matches somewhere in the text. Null: that cannot be decided here. */
  matches(text: string, pattern: string): boolean | null {
    this.spend(1 + Math.min(text.length, TEXT_MAX) / 8)
    if (text.length > TEXT_MAX) return null
    const found = attempted(() => {
      const { languages, start } = this.#automaton(pattern)
      return languages.has(start, text)
    })
    if ('value' in found) return found.value
    // An error is as slow as this many steps.
    this.spend(FAILURE_STEPS)
    return null
  }

  #automaton(pattern: string): { languages: RegexLanguages; start: Language } {
    let known = this.#patterns.get(pattern)
    if (known === undefined) {
      const languages = new RegexLanguages(this.budget)
      known = { languages, start: languages.somewhere(readRegex(pattern)) }
      this.#patterns.set(pattern, known)
    }
    return known
  }
}
