/** GBNF expressions for parts of a JSON schema. */
import { exactJson } from '../../base/index.ts'
import { gbnfText } from '../gbnf/gbnf-literal.ts'
import { isSchema, typesOf } from './json-schema-types.ts'

/** Any value of the schema's type, or its constant, which `json` writes. */
export function shallow(given: unknown, json = exactJson): string {
  if (isSchema(given) && 'const' in given) {
    const text = gbnfText(json(given['const']))
    if (text.length <= CONSTANT_MAX) return `( ${text} ws )`
  }
  const types = isSchema(given) ? typesOf(given) : []
  const known = types.filter((type) => typeof type === 'string' && TYPES.has(type)).map(String)
  return known.length === 0 || known.length < types.length ? 'value' : group(known)
}

/** The name of a tool is shorter. */
const CONSTANT_MAX = 200
const TYPES = new Set(['object', 'array', 'string', 'integer', 'number', 'boolean', 'null'])

/** A list of items, with commas. */
export function repeated(item: string, least: number, most: number | undefined): string {
  const rest = `( "," ws ${item} ){${Math.max(0, least - 1)},${most === undefined ? '' : most - 1}}`
  return least === 0 ? `( ${item} ${rest} )?` : `${item} ${rest}`
}

/** One of several expressions. */
export function group(options: readonly string[]): string {
  return options.length === 1 && /^[\w-]+$/.test(options[0] ?? '')
    ? (options[0] ?? '')
    : `( ${options.join(' | ')} )`
}
