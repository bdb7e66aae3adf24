/**
 * The values of a template as plain JavaScript values, with the interpreter's rules for them. For other values
 * `GIVE_UP` is thrown; the interpreter then renders the template from the start.
 */

/** A constant, because throwing it needs no stack trace. */
export const GIVE_UP = Symbol('left to the interpreter')

/** The result of `namespace(…)`; its fields are set by `{% set ns.field = … %}`. */
export class Namespace {
  readonly fields = new Map<string, unknown>()
}

/** The variables of a scope. Only a loop opens a scope, which all its iterations share. */
export class Scope {
  readonly #variables = new Map<string, unknown>()
  readonly #parent: Scope | null

  constructor(parent: Scope | null) {
    this.#parent = parent
  }

  set(name: string, value: unknown): void {
    this.#variables.set(name, value)
  }

  get(name: string): unknown {
    const value = this.#variables.get(name)
    if (value !== undefined || this.#parent === null || this.#variables.has(name)) return value
    return this.#parent.get(name)
  }
}

type PlainObject = Readonly<Record<string, unknown>>

export function isObject(value: unknown): value is PlainObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return !(value instanceof Namespace)
}

export const isInteger = (value: unknown): value is number => Number.isInteger(value)

export function isTrue(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) {
    if (Array.isArray(value)) return value.length > 0
    if (value instanceof Namespace) throw GIVE_UP
    return Object.keys(value).length > 0
  }
  if (typeof value === 'symbol' || typeof value === 'function') throw GIVE_UP
  return Boolean(value)
}

/** The output of an expression between `{{` and `}}`. */
export function written(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === null || value === undefined) return ''
  if (typeof value === 'boolean' || typeof value === 'bigint' || isInteger(value))
    return String(value)
  throw GIVE_UP
}

/** Methods of every mapping: these names do not mean a missing field. */
const MAPPING_METHODS = new Set(['get', 'items', 'keys', 'values', 'dictsort'])

export function fieldOf(value: unknown, name: string): unknown {
  if (typeof value === 'string' || Array.isArray(value)) {
    if (name === 'length') return value.length
    if (Array.isArray(value)) return undefined
    throw GIVE_UP
  }
  if (value instanceof Namespace) return value.fields.get(name)
  if (typeof value !== 'object' || value === null) return plain(value, undefined)
  if (Object.hasOwn(value, name)) {
    const field = (value as PlainObject)[name]
    if (field !== undefined) return field
  }
  if (MAPPING_METHODS.has(name) && !Object.hasOwn(value, name)) throw GIVE_UP
  return undefined
}

/** Returns `result`, unless `value` is of a kind that is not supported here. */
function plain<T>(value: unknown, result: T): T {
  if (typeof value === 'symbol' || typeof value === 'function') throw GIVE_UP
  return result
}

export function itemOf(value: unknown, index: unknown): unknown {
  if (typeof index === 'string') return fieldOf(value, index)
  if (!isInteger(index)) throw GIVE_UP
  if (Array.isArray(value)) return (value as unknown[]).at(index)
  if (typeof value === 'string') return value.at(index)
  throw GIVE_UP
}

export function json(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (Array.isArray(value)) return `[${value.map(json).join(', ')}]`
  if (isObject(value)) {
    // Not by entries: a pair per member takes three times as long.
    const fields = Object.keys(value).map((key) => `${JSON.stringify(key)}: ${json(value[key])}`)
    return `{${fields.join(', ')}}`
  }
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number') {
    return JSON.stringify(value)
  }
  if (typeof value === 'bigint') return String(value)
  throw GIVE_UP
}
