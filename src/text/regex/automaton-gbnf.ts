/**
 * A regular language as GBNF: one rule per state of its automaton. Every rule refers to others only at its end, so
 * long texts cost no stack.
 */
import { ANY_CHARACTER, charSet, intersection } from './char-set.ts'
import type { CharSet } from './char-set.ts'
import { patternTooLarge } from '../gbnf/grammar-refusal.ts'
import { setGbnf } from './regex-gbnf.ts'
import type { Writing } from './regex-gbnf.ts'
import type { Language, RegexLanguages } from './regex-language.ts'

const STATES_MAX = 1500
const STEPS_MAX = 60_000
const OPTIONS_MAX = 2500
/** Longer texts of a set of characters get a rule. */
const PLAIN_MAX = 12

type Steps = Map<Language, CharSet>

/** The texts are the rule `name`; the names of the other rules begin with it. Null: there is no text. */
export function automatonGbnf(
  languages: RegexLanguages,
  start: Language,
  name: string,
  writing: Writing,
): string | null {
  const states = statesFrom(languages, start)
  const alive = aliveOf(languages, states)
  if (!alive.has(start)) return null
  const names = new Map([...alive].map((state, index) => [state, `${name}-${index}`]))
  names.set(start, name)
  const characters = new CharacterRules(`${name}-c`, writing)
  const rules = [...alive].map((state) => {
    const options = [...(states.get(state) ?? [])].flatMap(([next, set]) => {
      const rule = names.get(next)
      return rule === undefined ? [] : [`${characters.of(set)} ${rule}`]
    })
    if (languages.isNullable(state)) options.push('""')
    return { text: `${names.get(state) ?? name} ::= ${options.join(' | ')}\n`, options }
  })
  if (rules.reduce((sum, { options }) => sum + options.length, 0) > OPTIONS_MAX)
    throw patternTooLarge()
  return [...rules.map(({ text }) => text), ...characters.rules].join('')
}

/** Sets of characters occur in many states. */
class CharacterRules {
  readonly rules: string[] = []
  readonly #known = new Map<string, string>()
  readonly #prefix: string
  readonly #writing: Writing

  constructor(prefix: string, writing: Writing) {
    this.#prefix = prefix
    this.#writing = writing
  }

  of(set: CharSet): string {
    const text = setGbnf(set, this.#writing)
    if (text.length <= PLAIN_MAX) return text
    const known = this.#known.get(text)
    if (known !== undefined) return known
    const name = `${this.#prefix}${this.#known.size}`
    this.#known.set(text, name)
    this.rules.push(`${name} ::= ${text}\n`)
    return name
  }
}

function statesFrom(languages: RegexLanguages, start: Language): ReadonlyMap<Language, Steps> {
  const ranges = languages.ranges()
  const states = new Map<Language, Steps>()
  const open = [start]
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    if (states.has(state)) continue
    const found = new Map<Language, [number, number][]>()
    for (const [first, last] of ranges) {
      const next = languages.derived(state, first)
      if (next === languages.nothing) continue
      const sets = found.get(next)
      if (sets === undefined) found.set(next, [[first, last]])
      else sets.push([first, last])
    }
    const steps: Steps = new Map()
    for (const [next, sets] of found) {
      const characters = intersection(charSet(...sets), ANY_CHARACTER)
      if (characters.length > 0) steps.set(next, characters)
    }
    states.set(state, steps)
    open.push(...steps.keys())
    if (states.size > STATES_MAX || states.size * ranges.length > STEPS_MAX) throw patternTooLarge()
  }
  return states
}

/** The states from which a text can end. */
function aliveOf(
  languages: RegexLanguages,
  states: ReadonlyMap<Language, Steps>,
): ReadonlySet<Language> {
  const before = new Map<Language, Language[]>()
  for (const [state, steps] of states) {
    for (const next of steps.keys()) {
      const known = before.get(next)
      if (known === undefined) before.set(next, [state])
      else known.push(state)
    }
  }
  const alive = new Set<Language>()
  const open = [...states.keys()].filter((state) => languages.isNullable(state))
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    if (alive.has(state)) continue
    alive.add(state)
    open.push(...(before.get(state) ?? []))
  }
  return alive
}
