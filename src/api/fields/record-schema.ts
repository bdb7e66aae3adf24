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
): z.ZodType<Record<string, V>> {
  return z
    .custom<Record<string, V>>()
    .superRefine((value, context) => {
      if (!isFields(value)) {
        context.addIssue('expected an object')
        return
      }
      for (const [key, item] of Object.entries(value)) {
        const message = fault(key, item)
        if (message !== null) context.addIssue({ code: 'custom', message, path: [key] })
      }
    })
    .meta({ type: 'object', additionalProperties: { type: valueType } })
}
