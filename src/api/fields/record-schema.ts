/**
 * Objects with arbitrary keys chosen by the client: metadata, arguments, schemas, template variables.
 *
 * The schema library would copy the object and silently drop a key `__proto__`. These schemas keep the object as
 * parsed, where `__proto__` is an ordinary key, because `JSON.parse` does not set prototypes.
 */
import { z } from 'zod'

type Fields = Record<string, unknown>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Any keys, any values. */
export const fieldsSchema = z
  .custom<Fields>(isFields, 'expected an object')
  .meta({ type: 'object', additionalProperties: {} })

/** Like `fieldsSchema`, where `fault` checks each key and value and returns null or an error text. */
export function recordSchema<V>(
  valueType: 'string' | 'number',
  fault: (key: string, value: unknown) => string | null,
  keysMax = Infinity,
): z.ZodType<Record<string, V>> {
  return z
    .custom<Record<string, V>>()
    .superRefine((value, context) => {
      if (!isFields(value)) {
        context.addIssue('expected an object')
        return
      }
      const entries = Object.entries(value)
      if (entries.length > keysMax) {
        context.addIssue(`must have at most ${keysMax} keys`)
        return
      }
      for (const [key, item] of entries) {
        const message = fault(key, item)
        if (message !== null) context.addIssue({ code: 'custom', message, path: [key] })
      }
    })
    .meta({ type: 'object', additionalProperties: { type: valueType } })
}

const METADATA_KEYS_MAX = 16

const metadataFault = (key: string, value: unknown): string | null => {
  if (key.length > 64) return 'keys have at most 64 characters'
  return typeof value === 'string' && value.length <= 512
    ? null
    : 'must be a text of at most 512 characters'
}

/** Metadata of stored objects, with OpenAI's limits. */
export const metadataSchema = recordSchema<string>('string', metadataFault, METADATA_KEYS_MAX)
