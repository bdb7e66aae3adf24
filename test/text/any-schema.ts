/** Small JSON schemas of all kinds, for property tests. */
import fc from 'fast-check'

export type Schema = Readonly<Record<string, unknown>> | boolean

const name = fc.constantFrom('a', 'b', 'ü', 'x y', '"', '名')
const leaf: fc.Arbitrary<Schema> = fc.oneof(
  fc.constantFrom<Schema>(
    { type: 'null' },
    { type: 'boolean' },
    { type: 'integer' },
    { type: 'number' },
    { type: 'string' },
  ),
  fc.record({
    type: fc.constant('integer'),
    minimum: fc.integer({ min: -99, max: 9 }),
    maximum: fc.integer({ min: 9, max: 999 }),
  }),
  fc.record({
    type: fc.constant('number'),
    minimum: fc.constantFrom(-1.5, 0, 0.25),
    exclusiveMaximum: fc.constantFrom(0.5, 3, 12.75),
  }),
  fc.record({
    type: fc.constant('string'),
    minLength: fc.nat(3),
    maxLength: fc.integer({ min: 3, max: 6 }),
  }),
  fc.record({
    type: fc.constant('string'),
    pattern: fc.constantFrom('^[a-z]+$', '^\\d{2,3}$', '^(x|"y")?$'),
  }),
  fc.record({
    enum: fc.uniqueArray(fc.oneof(name, fc.integer(), fc.constant(null)), {
      minLength: 1,
      maxLength: 4,
    }),
  }),
)
export const { schema: anySchema } = fc.letrec<{ schema: Schema }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.record({
      type: fc.constant('array'),
      items: tie('schema'),
      minItems: fc.nat(2),
      maxItems: fc.integer({ min: 2, max: 4 }),
    }),
    fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
    fc
      .tuple(fc.dictionary(name, tie('schema'), { minKeys: 1, maxKeys: 4 }), fc.array(name))
      .map(([properties, names]) => ({
        type: 'object',
        properties,
        required: [...new Set(names)].filter((key) => Object.hasOwn(properties, key)),
        additionalProperties: false,
      })),
    fc.record({ type: fc.constant('object'), additionalProperties: tie('schema') }),
  ),
}))
