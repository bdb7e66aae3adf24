/** Operators, tests, filters and methods of templates, by name. Others are left to the interpreter. */
import { stripped } from './strip.ts'
import { fieldOf, GIVE_UP, isInteger, isObject, isTrue, json } from './values.ts'

/** A map, so that names of Object.prototype such as `constructor` are not found. */
function named<T>(entries: Readonly<Record<string, T>>): ReadonlyMap<string, T> {
  return new Map(Object.entries(entries))
}

type Binary = (left: unknown, right: unknown) => unknown

/** Without `and` and `or`, whose right side is not always evaluated. */
export const BINARY = named<Binary>({
  '==': isEqual,
  '!=': (left, right) => !isEqual(left, right),
  '+': plus,
  '-': integers((a, b) => a - b),
  '*': integers((a, b) => a * b),
  '%': integers((a, b) => a % b),
  '<': integers((a, b) => a < b),
  '>': integers((a, b) => a > b),
  '<=': integers((a, b) => a <= b),
  '>=': integers((a, b) => a >= b),
  '~': (left, right) => textOf(left) + textOf(right),
  in: isIn,
  'not in': (left, right) => !isIn(left, right),
})

/** Loose equality, as in the interpreter. */
function isEqual(left: unknown, right: unknown): boolean {
  if (isCompound(left) || isCompound(right)) throw GIVE_UP
  // oxlint-disable-next-line eqeqeq -- the interpreter's rule
  return left == right
}

function isCompound(value: unknown): boolean {
  return (typeof value === 'object' && value !== null) || isForeign(value)
}

const isForeign = (value: unknown): boolean =>
  typeof value === 'symbol' || typeof value === 'function'

function plus(left: unknown, right: unknown): unknown {
  if (typeof left === 'string' && typeof right === 'string') return left + right
  if (isInteger(left) && isInteger(right)) return left + right
  if (Array.isArray(left) && Array.isArray(right)) return [...(left as unknown[]), ...right]
  throw GIVE_UP
}

function integers<T>(compute: (a: number, b: number) => T): Binary {
  return (left, right) => {
    if (isInteger(left) && isInteger(right)) return compute(left, right)
    throw GIVE_UP
  }
}

function textOf(value: unknown): string {
  if (typeof value === 'string' || isInteger(value)) return String(value)
  throw GIVE_UP
}

function isIn(left: unknown, right: unknown): boolean {
  if (isForeign(left)) throw GIVE_UP
  if (right === undefined) return false
  if (left === undefined || left === null || isCompound(left)) throw GIVE_UP
  if (Array.isArray(right)) return right.includes(left)
  if (typeof left !== 'string') throw GIVE_UP
  if (typeof right === 'string') return right.includes(left)
  if (isObject(right)) return Object.hasOwn(right, left)
  throw GIVE_UP
}

export const TESTS = named<(value: unknown) => boolean>({
  defined: (value) => value !== undefined,
  undefined: (value) => value === undefined,
  none: (value) => value === null,
  string: (value) => typeof value === 'string',
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  number: (value) => typeof value === 'number' || typeof value === 'bigint',
  integer: (value) => isInteger(value) || typeof value === 'bigint',
  iterable: (value) => Array.isArray(value) || typeof value === 'string',
  mapping: isObject,
  sequence: (value) => Array.isArray(value) || typeof value === 'string' || isObject(value),
})

export const FILTERS = named<(value: unknown) => unknown>({
  trim: ofText((text) => text.trim()),
  upper: ofText((text) => text.toUpperCase()),
  lower: ofText((text) => text.toLowerCase()),
  string: ofText((text) => text),
  tojson: json,
  length: (value) => {
    if (typeof value === 'string' || Array.isArray(value)) return value.length
    if (isObject(value)) return Object.keys(value).length
    throw GIVE_UP
  },
  first: (value) => ofList(value)[0],
  last: (value) => ofList(value).at(-1),
  items: (value) => {
    if (isObject(value)) return Object.entries(value)
    throw GIVE_UP
  },
})

function ofText<T>(compute: (text: string) => T): (value: unknown) => T {
  return (value) => {
    if (typeof value === 'string') return compute(value)
    throw GIVE_UP
  }
}

function ofList(value: unknown): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0) return value
  throw GIVE_UP
}

type Method = (value: unknown, args: readonly unknown[]) => unknown

export const METHODS = named<Method>({
  strip: strip((text) => text.trim(), 'both'),
  lstrip: strip((text) => text.trimStart(), 'left'),
  rstrip: strip((text) => text.trimEnd(), 'right'),
  upper: ofText((text) => text.toUpperCase()),
  lower: ofText((text) => text.toLowerCase()),
  startswith: ofTwoTexts((text, part) => text.startsWith(part)),
  endswith: ofTwoTexts((text, part) => text.endsWith(part)),
  split: ofTwoTexts((text, part) => {
    if (part === '') throw GIVE_UP
    return text.split(part)
  }),
  get: (value, args) => {
    const [key, fallback] = args
    if (!isObject(value) || typeof key !== 'string' || args.length > 2) throw GIVE_UP
    if (Object.hasOwn(value, 'get')) throw GIVE_UP
    if (!Object.hasOwn(value, key)) return args.length === 2 ? fallback : null
    return fieldOf(value, key)
  },
  items: (value, args) => {
    if (!isObject(value) || args.length > 0 || Object.hasOwn(value, 'items')) throw GIVE_UP
    return Object.entries(value)
  },
})

function strip(blanks: (text: string) => string, ends: 'both' | 'left' | 'right'): Method {
  return (value, [characters, ...more]) => {
    if (typeof value !== 'string' || more.length > 0) throw GIVE_UP
    if (characters === undefined) return blanks(value)
    if (typeof characters !== 'string') throw GIVE_UP
    return stripped(value, characters, ends)
  }
}

function ofTwoTexts(compute: (text: string, part: string) => unknown): Method {
  return (value, [part, ...more]) => {
    if (typeof value !== 'string' || typeof part !== 'string' || more.length > 0) throw GIVE_UP
    return compute(value, part)
  }
}

export function not(value: unknown): boolean {
  return !isTrue(value)
}

export function minus(value: unknown): number {
  if (isInteger(value)) return -value
  throw GIVE_UP
}
