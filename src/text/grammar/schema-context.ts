/** What the parts of the conversion of one JSON schema share. */
import { attempted } from '../gbnf/grammar-refusal.ts'
import type { DropKeyword } from '../gbnf/grammar-refusal.ts'
import { RegexBudget } from '../regex/regex-budget.ts'
import { RegexLanguages } from '../regex/regex-language.ts'
import type { Language } from '../regex/regex-language.ts'
import { readRegex } from '../regex/regex-syntax.ts'

/** Longer texts are not compared with patterns. */
const TEXT_MAX = 1000

export class SchemaContext {
  readonly drop: DropKeyword
  readonly budget = new RegexBudget()
  readonly #patterns = new Map<string, { languages: RegexLanguages; start: Language }>()

  constructor(drop: DropKeyword) {
    this.drop = drop
  }

  /** Whether the pattern matches somewhere in the text. Null: that cannot be decided here. */
  matches(text: string, pattern: string): boolean | null {
    if (text.length > TEXT_MAX) return null
    const found = attempted(() => {
      const { languages, start } = this.#automaton(pattern)
      return languages.has(start, text)
    })
    return 'value' in found ? found.value : null
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
