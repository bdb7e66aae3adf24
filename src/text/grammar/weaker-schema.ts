/**
 * The schema without the keyword that a grammar cannot express, for requests that want the rest of the schema
 * enforced.
 *
 * The result allows more than the original, never less. Applies only to "unsupported" errors; an invalid schema stays
 * refused.
 */
import { BatonError } from '../../base/index.ts'
import { isSchema } from './json-schema-types.ts'
import type { Schema } from './json-schema-types.ts'

interface WeakerSchema {
  readonly schema: unknown
  /** The ignored keyword. */
  readonly keyword: string
}

/** Keywords that combine schemas: if two of them cannot be merged, this keyword is the unsupported one. */
const JOINTS = ['allOf', 'anyOf', 'oneOf', '$ref']
/** Without an error that names the keyword: numbers whose bounds have too many digits. */
const BOUNDS = ['multipleOf', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum']

/** Null: `thrown` is another error, or there is no keyword left to ignore. */
export function weakerSchema(schema: unknown, thrown: unknown): WeakerSchema | null {
  if (!(thrown instanceof BatonError) || thrown.code !== 'request.unsupported_parameter')
    return null
  if (!isSchema(schema) || Object.keys(schema).length === 0) return null
  const named = [...thrown.message.matchAll(/'([$\w]+)'/g)].map(([, name = '']) => name)
  // Of "'enum' together with 'pattern'" the list is the stronger constraint and stays.
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

/** `anyOf` instead of `oneOf`. */
function alternatives(schema: Schema): unknown {
  const { oneOf, ...rest } = schema
  return 'anyOf' in rest ? { allOf: [rest, { anyOf: oneOf }] } : { ...rest, anyOf: oneOf }
}

function without(schema: Schema, keyword: string): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== keyword))
}
