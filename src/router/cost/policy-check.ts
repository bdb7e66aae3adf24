/**
 * Validates user-defined policy parts (scorers, filters, a picker) at startup. Throws `config.invalid` with one line
 * that names the part.
 */
import { BatonError } from '../../base/index.ts'
import { BLOCK_TERMS } from './block-terms.ts'
import { TIME_TERMS } from './time-terms.ts'
import type { Filter, Picker, Scorer } from './policy-part.ts'

/** A name appears as a column of `explain`, a key of a record and a word of the decision header. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/
const ROLES: ReadonlySet<unknown> = new Set([undefined, 'add', 'credit', 'factor'])

interface PolicyParts {
  readonly scorers: readonly Scorer[]
  readonly filters: readonly Filter[]
  readonly picker: Picker | null
}

export function checkPolicyParts({ scorers, filters, picker }: PolicyParts): void {
  const usedNames = new Set<string>([...BLOCK_TERMS, ...TIME_TERMS].map(({ name }) => name))
  for (const scorer of scorers) {
    checkScorer(scorer)
    if (usedNames.has(scorer.name)) {
      throw invalid(`scorer '${scorer.name}'`, 'a name that no other term of the cost has', 'name')
    }
    usedNames.add(scorer.name)
  }
  for (const filter of filters) {
    if (typeof filter !== 'function') throw invalid('a filter', 'a function', 'filters')
  }
  if (picker !== null && typeof picker !== 'function') {
    throw invalid('the picker', 'a function', 'picker')
  }
}

/** The value comes from a user's module, so every field is checked. */
function checkScorer(scorer: unknown): void {
  const fields = (typeof scorer === 'object' && scorer !== null ? scorer : {}) as Record<
    keyof Scorer,
    unknown
  >
  const { name, of, role, weight, unit } = fields
  if (typeof name !== 'string' || !NAME.test(name)) {
    const expected = 'a name of letters, digits, dots, dashes (at most 40)'
    throw invalid(`scorer ${JSON.stringify(name) ?? 'without a name'}`, expected, 'name')
  }
  const whose = `scorer '${name}'`
  if (typeof of !== 'function') throw invalid(whose, 'a function (candidate, request)', 'of')
  if (!ROLES.has(role)) throw invalid(whose, 'add, credit or factor', 'role')
  if (weight !== undefined && !(typeof weight === 'number' && Number.isFinite(weight))) {
    throw invalid(whose, 'a finite number', 'weight')
  }
  if (unit !== undefined && typeof unit !== 'string') throw invalid(whose, 'a text', 'unit')
}

function invalid(part: string, expected: string, field: string): BatonError {
  return new BatonError('config.invalid', `${part} is invalid: ${field}: expected ${expected}`, {
    data: { option: 'scorers' },
  })
}
