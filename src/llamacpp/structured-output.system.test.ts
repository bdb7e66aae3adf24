import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { workerIdOf } from '../base/index.ts'
import { RequestContext } from '../engine/index.ts'
import type { GuidedDecoding } from '../request/index.ts'
import type { Tokenizer } from '../text/index.ts'
import { loadModelText } from '../host/tokenizer/model-files.ts'
import { LlamaCppEngine } from './llamacpp-engine.ts'

const MODEL = 'models/storyteller/storyteller-q8_0.gguf'
const SEEDS = [1, 2, 3]

const text = (maxLength: number) => ({ type: 'string', maxLength })
const closed = (properties: Record<string, unknown>) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
})
const pet = closed({
  name: { ...text(12), minLength: 2 },
  kind: { enum: ['cat', 'dog', 'fox'] },
  age: { type: 'integer', minimum: 1, maximum: 30 },
})

const SCHEMAS: Readonly<Record<string, unknown>> = {
  'flat object': pet,
  'objects in lists in objects': closed({
    owner: closed({ name: text(16), adult: { type: 'boolean' } }),
    pets: { type: 'array', items: pet, minItems: 1, maxItems: 3 },
  }),
  'four levels': closed({ a: closed({ b: closed({ c: closed({ d: { type: 'null' } }) }) }) }),
  'all properties optional': { ...closed({ a: { type: 'boolean' }, b: pet }), required: [] },
  'one optional among required': {
    ...closed({ a: text(3), b: text(3), c: text(3) }),
    required: ['a', 'c'],
  },
  'names beyond ASCII': closed({
    größe: { type: 'integer', maximum: 9 },
    名前: text(4),
    '🦊': { type: 'null' },
  }),
  'names that must be escaped': closed({
    'a "b"': { type: 'boolean' },
    'c\\d\n': { type: 'boolean' },
  }),
  'values beyond ASCII': { enum: ['grün – "🦊"', 'ключ', '値'] },
  'numbers and words in one list': { enum: [1, -2.5, true, null, 'one'] },
  'integers of any sign': closed({
    low: { type: 'integer', maximum: -3, minimum: -1234 },
    high: { type: 'integer', minimum: 40_000, maximum: 70_001 },
  }),
  'integers open upwards': { type: 'integer', exclusiveMinimum: 17 },
  'a fraction': { type: 'number', minimum: 0, maximum: 1 },
  'numbers between decimals': { type: 'number', exclusiveMinimum: -0.75, exclusiveMaximum: 12.5 },
  'a price': { type: 'number', exclusiveMinimum: 0, maximum: 999.99, multipleOf: 0.01 },
  multiples: {
    type: 'array',
    items: { type: 'integer', minimum: 0, maximum: 60, multipleOf: 15 },
    minItems: 2,
    maxItems: 2,
  },
  'a list of exactly three': {
    type: 'array',
    items: { enum: ['red', 'blue'] },
    minItems: 3,
    maxItems: 3,
  },
  'an empty list, always': { type: 'array', maxItems: 0 },
  'a tuple': {
    type: 'array',
    prefixItems: [{ enum: ['x', 'y'] }, { type: 'integer', minimum: 0, maximum: 9 }],
    items: false,
    minItems: 2,
  },
  'lists in lists': {
    type: 'array',
    items: { type: 'array', items: { type: 'boolean' }, maxItems: 2 },
    minItems: 1,
    maxItems: 2,
  },
  'a map': {
    type: 'object',
    propertyNames: { pattern: '^[a-z]{1,4}$' },
    additionalProperties: { type: 'integer', minimum: 0, maximum: 5 },
    maxProperties: 3,
  },
  'a pattern': { type: 'string', pattern: '^[A-Z]{2,3}-\\d{4}(\\/[a-f"]+)?$' },
  'a date and an address': closed({
    on: { type: 'string', format: 'date' },
    to: { type: 'string', format: 'email' },
  }),
  'a long text': { type: 'string', minLength: 230, maxLength: 460 },
  'a value or null': closed({ note: { type: ['string', 'null'], maxLength: 10 } }),
  'one of several shapes': {
    oneOf: [
      closed({ kind: { const: 'a' }, n: { type: 'integer', maximum: 9, minimum: 0 } }),
      closed({ kind: { const: 'b' }, s: text(4) }),
      { type: 'null' },
    ],
  },
  'all of several schemas': {
    allOf: [closed({ a: { type: 'integer', minimum: 0 } }), { properties: { a: { maximum: 7 } } }],
  },
  'shared definitions': {
    ...closed({
      from: { $ref: '#/$defs/point' },
      to: { $ref: '#/$defs/point', description: 'end' },
    }),
    $defs: { point: closed({ x: { type: 'integer', minimum: 0, maximum: 99 } }) },
  },
}

describe('guided output of the shipped model', () => {
  const engine = new LlamaCppEngine({ modelPath: MODEL, sequences: 8 })
  let tokenizer: Tokenizer

  beforeAll(async () => {
    await engine.start(workerIdOf(1))
    ;({ tokenizer } = await loadModelText(MODEL))
  })
  afterAll(() => engine.cleanup())

  async function write(
    guided: GuidedDecoding,
    seed: number,
    { resumed = [] as readonly number[], maxTokens = 1200 } = {},
  ) {
    const requestId = `${JSON.stringify(guided)} ${seed} ${resumed.length}`
    const prompt = tokenizer.encode('Once upon a time there was', { special: false })
    const tokens: number[] = []
    let finish: string | undefined
    const request = {
      requestId,
      model: 'storyteller',
      tokenIds: Uint32Array.of(...prompt, ...resumed),
      resumedTokens: resumed.length,
      sampling: { temperature: 0.5 * seed, seed, guided },
      stop: { maxTokens },
      output: {},
      eosTokenIds: [],
      routing: {},
    }
    for await (const chunk of engine.generate(request, new RequestContext(requestId))) {
      tokens.push(...chunk.tokenIds)
      finish = chunk.finish ?? finish
    }
    return { text: tokenizer.decode(tokens), finish, tokens }
  }

  it.each(Object.entries(SCHEMAS))('%s - is valid at every temperature', async (_what, schema) => {
    const type = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0])
    const guided: GuidedDecoding = { kind: 'json-schema', schema }
    for (const { text: json, finish } of await Promise.all(
      SEEDS.map((seed) => write(guided, seed)),
    )) {
      expect([json, finish]).toEqual([json, 'eos'])
      expect([json, type.safeParse(JSON.parse(json)).error?.issues]).toEqual([json, undefined])
    }
  })

  it.each([
    { type: 'array', items: pet, maxItems: 5000 },
    { type: 'array', items: text(5000), minItems: 1000 },
    { type: 'object', additionalProperties: pet, maxProperties: 5000 },
    text(1_000_000),
    { type: 'string', pattern: '^([a-z]+,)*[a-z]+$', maxLength: 100_000 },
  ])('the largest limits - make a grammar that llama.cpp accepts: %j', async (schema) => {
    const { finish } = await write({ kind: 'json-schema', schema }, 1, { maxTokens: 4 })
    expect(['length', 'eos']).toContain(finish)
  })

  it('continued elsewhere from any token - ends as it would have here', async () => {
    const guided: GuidedDecoding = { kind: 'json-schema', schema: pet }
    const whole = await write(guided, 2)
    for (let taken = 1; taken < whole.tokens.length; taken += 3) {
      const begin = whole.tokens.slice(0, taken)
      const rest = await write(guided, 2, { resumed: begin })
      expect([...begin, ...rest.tokens]).toEqual(whole.tokens)
    }
  })

  it.each([
    '[a-z]{3}( [a-z]{3}){2}\\.',
    '(yes|no), .{5,10}!',
    '[^a-zA-Z"\\n]{8}',
    '\\u{1F98A}+é?ж{2}x',
  ])('pattern %s - is matched from start to end', async (pattern) => {
    const all = await Promise.all(SEEDS.map((seed) => write({ kind: 'regex', pattern }, seed)))
    for (const { text: output, finish } of all) {
      if (finish !== 'length') expect(output).toMatch(new RegExp(`^(?:${pattern})$`, 'u'))
    }
    expect(all.some(({ finish }) => finish === 'eos')).toBe(true)
  })
})
