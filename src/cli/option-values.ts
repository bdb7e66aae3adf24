/**
 * The kinds of values that options have, as text or as YAML has them, each with one line that says what works.
 */
import { z } from 'zod'

/** Neither an empty text nor `true` is a number here, though both can be made into one. */
const numberWithin = (min: number, max: number, what: string, isWhole: boolean) => {
  const error = `must be ${what} from ${min} to ${max}`
  return z
    .union(
      [
        z.number(),
        z
          .string()
          .regex(/^-?\d+(\.\d+)?(e\d+)?$/i)
          .transform(Number),
      ],
      { error },
    )
    .refine((value) => value >= min && value <= max && (!isWhole || Number.isInteger(value)), {
      error,
    })
}
export const count = (min: number, max: number) => numberWithin(min, max, 'a whole number', true)
export const amount = (min: number, max: number) => numberWithin(min, max, 'a number', false)

export const text = z.string('must be text').min(1, 'must not be empty')

/** Text, or in YAML the object itself, which becomes its JSON. */
export const textOrObject = z.union(
  [text, z.record(z.string(), z.unknown()).transform((value) => JSON.stringify(value))],
  { error: 'must be a file, or an object' },
)

/** What router and cards reserve for the places that `topology` names. */
const RESERVED_TAINT = /(^|,)dynamo\.topology\//
export const taintList = z
  .string('must be words with commas between them')
  .regex(/^[^,\s]+(,[^,\s]+)*$/, 'must be words with commas between them')
  .refine((list) => !RESERVED_TAINT.test(list), 'dynamo.topology/ is written as --topology')

const PAIRS_EXPECTED = 'must be domain=value, with commas between several'
export const pairList = z
  .string(PAIRS_EXPECTED)
  .regex(/^[^,=\s]+=[^,=\s]+(,[^,=\s]+=[^,=\s]+)*$/, PAIRS_EXPECTED)

export const oneOf = (names: readonly string[]) =>
  z.enum(names, { error: `must be one of ${names.join(', ')}` })

const YES = ['true', '1', 'yes']
const NO = ['false', '0', 'no']
export const flag = z.union(
  [z.boolean(), z.enum([...YES, ...NO]).transform((word) => YES.includes(word))],
  { error: 'must be true or false' },
)

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  kib: 1024,
  mib: 1024 ** 2,
  gib: 1024 ** 3,
  k: 1024,
  m: 1024 ** 2,
  g: 1024 ** 3,
}
export const byteSize = z.union([z.number(), z.string()]).transform((value, context) => {
  const match = /^([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)$/i.exec(String(value).trim())
  const unit = BYTE_UNITS[(match?.[2] ?? '').toLowerCase()]
  if (match === null || unit === undefined) {
    context.addIssue({ code: 'custom', message: 'must be a size such as 512MiB, 2GB or 1048576' })
    return z.NEVER
  }
  return Math.floor(Number(match[1]) * unit)
})
