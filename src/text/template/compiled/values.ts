/**
 * What a template computes with, as plain JavaScript values, and the rules of the interpreter for them as far as they are
 * plain. `GIVE_UP` is thrown for all else: then the interpreter renders the template from its beginning.
 */

/** A constant: to throw it costs no stack trace. */
export const GIVE_UP = Symbol('left to the interpreter')

/** What `namespace(…)` makes; its fields are set by `{% set ns.field = … %}`. */
export class Namespace {
  readonly fields = new Map<string, unknown>()
}

/** Variables of one scope. Only a loop opens a scope, and all its rounds share it. */
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

export type PlainObject = Readonly<Record<string, unknown>>

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

/** What an expression between `{{` and `}}` writes. */
export function written(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === null || value === undefined) return ''
  if (typeof value === 'boolean' || typeof value === 'bigint' || isInteger(value))
    return String(value)
  throw GIVE_UP
}

/** Names of methods that every mapping has: not the absence of a field. */
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

/** `result`, unless `value` is something that the rules here do not know. */
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
    const fields = Object.entries(value).map(
      ([key, item]) => `${JSON.stringify(key)}: ${json(item)}`,
    )
    return `{${fields.join(', ')}}`
  }
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number') {
    return JSON.stringify(value)
  }
  if (typeof value === 'bigint') return String(value)
  throw GIVE_UP
}
