/**
 * A schema without the keyword that no grammar can hold, for requests that want the rest of the schema nevertheless.
 *
 * What is left allows more than what was asked for, never less. Only a refusal as unsupported is met so; a schema that
 * makes no sense stays refused.
 */
import { BatonError } from '../../base/index.ts'
import { isSchema } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'

interface WeakerSchema {
  readonly schema: unknown
  /** What was left out. */
  readonly keyword: string
}

/** Joints of several schemas: where two of them have no common form, the joint is what cannot be held. */
const JOINTS = ['allOf', 'anyOf', 'oneOf', '$ref']
/** Without a word for the keyword itself: numbers whose bounds have too many digits. */
const BOUNDS = ['multipleOf', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum']

/** Null: `thrown` says something else, or nothing is left to leave out. */
export function weakerSchema(schema: unknown, thrown: unknown): WeakerSchema | null {
  if (!(thrown instanceof BatonError) || thrown.code !== 'request.unsupported_parameter')
    return null
  if (!isSchema(schema) || Object.keys(schema).length === 0) return null
  const named = [...thrown.message.matchAll(/'([$\w]+)'/g)].map(([, name = '']) => name)
  // Of "'enum' together with 'pattern'" the list says more than what stands beside it.
  const own = named.toReversed().find((name) => Object.hasOwn(schema, name))
  if (own === 'oneOf' && !thrown.message.includes('more than'))
    return { schema: alternatives(schema), keyword: own }
  const bound = BOUNDS.find((name) => Object.hasOwn(schema, name))
  const joint = JOINTS.find((name) => Object.hasOwn(schema, name))
  const keyword = own ?? bound ?? joint
  return keyword === undefined
    ? { schema: true, keyword: named[0] ?? 'schema' }
    : { schema: without(schema, keyword), keyword: named[0] ?? keyword }
}

/** At least one of them instead of exactly one. */
function alternatives(schema: Schema): unknown {
  const { oneOf, ...rest } = schema
  return 'anyOf' in rest ? { allOf: [rest, { anyOf: oneOf }] } : { ...rest, anyOf: oneOf }
}

function without(schema: Schema, keyword: string): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== keyword))
}
