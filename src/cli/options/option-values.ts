/**
 * The types of option values, as text or in YAML. Each has the words that follow "is invalid: expected".
 */
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import { parseDisaggregationMode } from '../../request/index.ts'

/** Empty text and `true` are refused, although JavaScript converts both to a number. */
const numberWithin = (min: number, max: number, what: string, isWhole: boolean) => {
  const error = `${what} from ${min} to ${max}`
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
export const count = (min: number, max: number) => numberWithin(min, max, 'an integer', true)
export const amount = (min: number, max: number) => numberWithin(min, max, 'a number', false)

export const text = z.string('text').min(1, 'a text that is not empty')

const ADDRESS_EXPECTED = 'an http:// or https:// address'
export const httpAddress = z
  .string(ADDRESS_EXPECTED)
  .refine(
    (value) => URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
    ADDRESS_EXPECTED,
  )

/** Text, or in YAML an object, which is converted to JSON. */
export const textOrObject = z.union(
  [text, z.record(z.string(), z.unknown()).transform((value) => JSON.stringify(value))],
  { error: 'a file, or an object' },
)

/** Words separated by commas, or in YAML a list, whose texts and objects are converted to JSON. */
export const textOrList = z.union(
  [text, z.array(z.unknown()).transform((list) => JSON.stringify(list))],
  { error: 'a text, or a list' },
)

/** Prefix that is reserved for the taints that router and cards derive from `topology`. */
const RESERVED_TAINT = /(^|,)dynamo\.topology\//
export const taintList = z
  .string('words separated by commas')
  .regex(/^[^,\s]+(,[^,\s]+)*$/, 'words separated by commas')
  .refine((list) => !RESERVED_TAINT.test(list), 'no dynamo.topology/ taint: --topology writes it')

const ADDRESS_FORM = /^(\[[0-9a-f:.]+\]|[^\s:/[\]]+)(?::(\d{1,5}))?$/i
const HOST_EXPECTED = 'host or host:port (an IPv6 address in [brackets])'
export const hostAndPort = z.string(HOST_EXPECTED).refine((value) => {
  const [, host, port] = ADDRESS_FORM.exec(value) ?? []
  return host !== undefined && (port === undefined || (Number(port) > 0 && Number(port) < 65_536))
}, HOST_EXPECTED)

/** For a value that `hostAndPort` accepted. */
export function parseHostAndPort(value: string): {
  readonly host: string
  readonly port?: number
} {
  const [, host = value, port] = ADDRESS_FORM.exec(value) ?? []
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  return port === undefined ? { host: bare } : { host: bare, port: Number(port) }
}

const PAIRS_EXPECTED = 'domain=value, separated by commas'
export const pairList = z
  .string(PAIRS_EXPECTED)
  .regex(/^[^,=\s]+=[^,=\s]+(,[^,=\s]+=[^,=\s]+)*$/, PAIRS_EXPECTED)

export const oneOf = (names: readonly string[]) =>
  z.enum(names, { error: `one of ${names.join(', ')}` })

/** One of the names, or a known alias of one. */
export const nameKnownTo = (isKnown: (name: string) => boolean, names: readonly string[]) => {
  const error = `one of ${names.join(', ')}`
  return z.string(error).refine((name) => names.includes(name) || isKnown(name), error)
}

/** A path contains a slash or ends like a module file; a name has neither. */
export const isModulePath = (value: string): boolean =>
  /[\\/]/.test(value) || /\.[cm]?js$/.test(value)

export const nameOrModule = (names: readonly string[]) => {
  const error = `one of ${names.join(', ')}, or the path of a module, such as ./mine.js`
  return z.string(error).refine((value) => names.includes(value) || isModulePath(value), error)
}

const disaggregationMode = z.string('one of: agg, prefill, decode').transform((name, context) => {
  try {
    return parseDisaggregationMode(name)
  } catch (error) {
    context.addIssue({ code: 'custom', message: BatonError.from(error).message })
    return z.NEVER
  }
})

/** `auto`: decode at first, later whatever role it is told to take. */
export const workerMode = z.union([z.literal('auto'), disaggregationMode], {
  error: 'one of: agg, prefill, decode, auto',
})

const YES = ['true', '1', 'yes']
const NO = ['false', '0', 'no']
export const flag = z.union(
  [z.boolean(), z.enum([...YES, ...NO]).transform((word) => YES.includes(word))],
  { error: 'true or false' },
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
    context.addIssue({ code: 'custom', message: 'a size such as 512MiB, 2GB or 1048576' })
    return z.NEVER
  }
  const bytes = Math.floor(Number(match[1]) * unit)
  if (Number.isSafeInteger(bytes)) return bytes
  context.addIssue({ code: 'custom', message: 'a size below 8192TiB' })
  return z.NEVER
})
export const indexSize = byteSize.refine((bytes) => bytes >= 1024 ** 2, {
  error: 'a size of at least 1MiB',
})
