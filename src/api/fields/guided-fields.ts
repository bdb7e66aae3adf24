/** Fields for structured output (`response_format`, `guided_*`): their schema, and the resulting constraint. */
import { z } from 'zod'
import { BatonError, excessOfJson, isRecord, JSON_DEPTH_MAX } from '../../base/index.ts'
import { parseExactJson, sizeOfJson } from '../../base/index.ts'
import type { GuidedDecoding } from '../../request/index.ts'
import { fieldsSchema } from './record-schema.ts'

const GRAMMAR_NESTING_MAX = 500
/** Limits for a schema that is a text of JSON, which the limits of a body do not see. */
const SCHEMA_VALUES_MAX = 256 * 1024
const SCHEMA_LIMITS = {
  depth: JSON_DEPTH_MAX,
  numbers: SCHEMA_VALUES_MAX,
  values: SCHEMA_VALUES_MAX,
}
const NOT_JSON = 'is a text that is not JSON'
const OPEN = 0x28
const CLOSE = 0x29

const responseFormat = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name: z.string().min(1),
      description: z.string().optional(),
      strict: z.boolean().nullish(),
      schema: z.union([fieldsSchema, z.literal(true)], {
        error: ({ input }) =>
          input === undefined ? 'is missing' : 'must be a schema, and not `false`',
      }),
    }),
  }),
])

export const guidedFields = {
  response_format: responseFormat.optional(),
  guided_json: z.union([z.string().min(1), fieldsSchema]).optional(),
  guided_regex: z.string().min(1).optional(),
  guided_choice: z.array(z.string().min(1)).min(1).optional(),
  guided_grammar: z.string().min(1).optional(),
  /** Name of the library that enforces the constraint; no effect that a client could notice. */
  guided_decoding_backend: z.string().optional(),
  /** vLLM's newer form of the four fields above. */
  structured_outputs: z
    .strictObject({
      json: z.union([z.string().min(1), fieldsSchema]).nullish(),
      regex: z.string().min(1).nullish(),
      choice: z.array(z.string().min(1)).min(1).nullish(),
      grammar: z.string().min(1).nullish(),
      json_object: z.boolean().nullish(),
    })
    .optional(),
} as const

const guidedObject = z.object(guidedFields)
type GuidedFields = z.infer<typeof guidedObject>

export function guidedOf(fields: GuidedFields): GuidedDecoding | undefined {
  const asked = [
    formatOf(fields.response_format),
    jsonSchemaOf(fields.guided_json),
    fields.guided_regex === undefined
      ? undefined
      : ({ kind: 'regex', pattern: fields.guided_regex, field: 'guided_regex' } as const),
    fields.guided_choice === undefined
      ? undefined
      : ({ kind: 'choice', choices: fields.guided_choice, field: 'guided_choice' } as const),
    grammarOf(fields.guided_grammar),
    ...structuredOf(fields.structured_outputs),
  ].filter((entry) => entry !== undefined)
  if (asked.length > 1) {
    throw refused(
      'response_format',
      'only one of response_format, structured_outputs and guided_json, guided_regex, guided_choice, guided_grammar may be given',
    )
  }
  return asked[0]
}

function structuredOf(
  asked: GuidedFields['structured_outputs'],
): readonly (GuidedDecoding | undefined)[] {
  if (asked === undefined) return []
  const { json, regex, choice, grammar, json_object: isJson } = asked
  const named = (entry: GuidedDecoding | undefined): GuidedDecoding | undefined =>
    entry === undefined ? undefined : { ...entry, field: 'structured_outputs' }
  return [
    named(jsonSchemaOf(json ?? undefined, 'structured_outputs.json')),
    regex == null ? undefined : { kind: 'regex', pattern: regex, field: 'structured_outputs' },
    choice == null ? undefined : { kind: 'choice', choices: choice, field: 'structured_outputs' },
    named(grammarOf(grammar ?? undefined)),
    isJson === true ? { kind: 'json', field: 'structured_outputs' } : undefined,
  ]
}

function formatOf(format: GuidedFields['response_format']): GuidedDecoding | undefined {
  switch (format?.type) {
    case undefined:
    case 'text':
      return undefined
    case 'json_object':
      return { kind: 'json', field: 'response_format' }
    case 'json_schema':
      return relaxedUnless(
        format.json_schema.strict,
        schemaOrJson(format.json_schema.schema, 'response_format'),
      )
  }
}

function jsonSchemaOf(
  value: GuidedFields['guided_json'],
  field = 'guided_json',
): GuidedDecoding | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string') return schemaOrJson(value, field)
  const schema = parsedSchema(value, field)
  if (isRecord(schema)) return schemaOrJson(schema, field)
  throw refused(field, 'must be a JSON schema object')
}

function parsedSchema(json: string, field: string): unknown {
  const size = sizeOfJson(json)
  if (!size.isClosed) throw refused(field, NOT_JSON)
  const excess = excessOfJson(size, SCHEMA_LIMITS)
  if (excess !== null) throw refused(field, excess)
  try {
    return parseExactJson(json)
  } catch (cause) {
    throw refused(field, NOT_JSON, cause)
  }
}

/** Only with `strict: true` unsupported keywords are refused. */
function relaxedUnless(strict: boolean | null | undefined, guided: GuidedDecoding): GuidedDecoding {
  return strict === true || guided.kind !== 'json-schema' ? guided : { ...guided, isRelaxed: true }
}

/** The schema that allows everything means "any JSON". */
function schemaOrJson(schema: unknown, field: string): GuidedDecoding {
  if (schema === true) return { kind: 'json', field }
  return { kind: 'json-schema', schema, field }
}

function grammarOf(gbnf: string | undefined): GuidedDecoding | undefined {
  if (gbnf === undefined) return undefined
  let depth = 0
  // By code: a grammar may be as long as the body of a request.
  for (let at = 0; at < gbnf.length; at++) {
    const code = gbnf.charCodeAt(at)
    if (code === OPEN) depth += 1
    else if (code === CLOSE) depth -= 1
    if (depth > GRAMMAR_NESTING_MAX) {
      throw refused('guided_grammar', `is nested deeper than ${GRAMMAR_NESTING_MAX}`)
    }
  }
  return { kind: 'grammar', gbnf, field: 'guided_grammar' }
}

function refused(param: string, what: string, cause?: unknown): BatonError {
  return new BatonError('request.invalid_argument', `\`${param}\`: ${what}`, {
    data: { param },
    cause,
  })
}
