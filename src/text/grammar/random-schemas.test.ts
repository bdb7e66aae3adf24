/** `BATON_TEST_SCHEMAS=5000` tries that many schemas instead of 250. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { randomSchema } from '../../../test/text/random-schema.ts'
import { seededDraw } from '../../../test/text/seeded-draw.ts'
import { guidedGrammar } from './guided-grammar.ts'

const COUNT = Number(process.env['BATON_TEST_SCHEMAS'] ?? 250)
const ENFORCED = 'date-time date time uuid email hostname ipv4 ipv6 uri duration'.split(' ')

function validator(schema: object): (value: unknown) => boolean {
  const ajv = new Ajv2020({
    strict: false,
    logger: false,
    ownProperties: true,
    validateSchema: false,
    multipleOfPrecision: 4,
  })
  addFormats.default(ajv, ENFORCED as never)
  return ajv.compile(schema)
}

/** The grammar, or the error that refuses the schema. */
function grammarOf(schema: object, relaxed?: Set<string>): string | BatonError {
  try {
    const isRelaxed = relaxed !== undefined
    return guidedGrammar({ kind: 'json-schema', schema, isRelaxed }, relaxed)
  } catch (error) {
    if (error instanceof BatonError) return error
    throw error
  }
}

describe('random JSON schemas', () => {
  it('strict - every text of the grammar is valid; what is refused is named', () => {
    let accepted = 0
    for (let seed = 0; seed < COUNT; seed++) {
      const schema = randomSchema(String(seed))
      const gbnf = grammarOf(schema)
      if (typeof gbnf !== 'string') {
        expect(gbnf.message).toMatch(/cannot express '[$\w]+'|is invalid: /)
        continue
      }
      accepted += 1
      expectValid(schema, gbnf, seed)
    }
    expect(accepted).toBeGreaterThan(COUNT / 2)
  })

  it('not strict - only schemas for which nothing is valid are refused', () => {
    for (let seed = 0; seed < COUNT; seed++) {
      const schema = randomSchema(String(seed))
      const relaxed = new Set<string>()
      const gbnf = grammarOf(schema, relaxed)
      if (typeof gbnf !== 'string') {
        expect(gbnf.message).toMatch(/is invalid: /)
        continue
      }
      if (relaxed.size === 0) expectValid(schema, gbnf, seed)
      else for (const text of textsOf(gbnf, seed)) JSON.parse(text)
      for (const name of relaxed) expect(JSON.stringify(schema)).toContain(`"${name}":`)
    }
  })
})

function expectValid(schema: object, gbnf: string, seed: number): void {
  const isValid = validator(schema)
  for (const text of textsOf(gbnf, seed))
    expect([seed, schema, text, isValid(JSON.parse(text))]).toEqual([seed, schema, text, true])
}

function textsOf(gbnf: string, seed: number): readonly string[] {
  const language = new GbnfLanguage(gbnf)
  const { random } = seededDraw(`texts ${seed}`)
  return Array.from({ length: 4 }, () => language.draw(random))
}
