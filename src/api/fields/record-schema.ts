/**
 * Objects of a body whose keys are the client's own: metadata, arguments, schemas, variables of a template.
 *
 * The schema library makes a new object and leaves a key `__proto__` out without a word. These are taken as they are, so that it is a
 * key like others; no object has it as its prototype, since JSON made it.
 */
import { z } from 'zod'

type Fields = Record<string, unknown>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Any keys, any values. */
export const fieldsSchema = z
  .custom<Fields>(isFields, 'expected an object')
  .meta({ type: 'object', additionalProperties: {} })

/** As `fieldsSchema`, where each key and value must be what `fault` has no words against. */
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

/** Metadata of objects that are kept: the bounds are OpenAI's. */
export const metadataSchema = recordSchema<string>('string', metadataFault, METADATA_KEYS_MAX)
