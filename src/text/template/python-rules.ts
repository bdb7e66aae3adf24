/**
 * The interpreter of `@huggingface/jinja` with the rules of Jinja in Python, for which templates are written, where
 * published ones need them: values have a text (`none | string`, `list | upper`, `~`), lists are compared by their
 * items, tuples are lists, `strip` takes characters, `items` is a method also of a mapping with such a key, texts can
 * be repeated and have `format`, lists have `min`, `max` and `map` by a filter, mappings may have numbers as keys.
 * `{{ none }}` stays an empty text, and a missing text is an error except for `string`, so that another form of the
 * messages is tried.
 *
 * Such expressions are replaced by calls of functions that the interpreter is given as variables. Their names begin
 * with a blank, so neither a template nor a variable of a request can mean them.
 */
import { Template } from '@huggingface/jinja'
import type {
  BinaryOperation,
  Call,
  Filter,
  ListLiteral,
  Member,
  Named,
  SyntaxNode,
} from './compiled/syntax.ts'
import { stripped } from './compiled/strip.ts'
import { contains, formatted, listIn, numbersIn, str, textIn } from './python-values.ts'
import type { Held } from './python-values.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Rule = (node: never, numbered: Set<string>) => SyntaxNode
type Value = (...args: readonly [Held, ...Held[]]) => unknown

const MAPPED: Readonly<Record<string, (text: string) => string>> = {
  upper: (text) => text.toUpperCase(),
  lower: (text) => text.toLowerCase(),
  trim: (text) => text.trim(),
  string: (text) => text,
}

const strip =
  (ends: 'both' | 'left' | 'right'): Value =>
  (text, set) =>
    set === undefined ? undefined : stripped(textIn(text), textIn(set), ends)

const VALUES: Readonly<Record<string, Value>> = {
  str,
  text: (held) => {
    if (held.type === 'NullValue') throw new Error('null is no text')
    return str(held)
  },
  in: (item, all) => contains(item, all!),
  'not in': (item, all) => !contains(item, all!),
  strip: strip('both'),
  lstrip: strip('left'),
  rstrip: strip('right'),
  '*': (text, count) => textIn(text).repeat(Math.max(0, Number(count?.value))),
  format: (text, ...values) => formatted(textIn(text), values),
  min: (list) => Math.min(...numbersIn(list)),
  max: (list) => Math.max(...numbersIn(list)),
  map: (list, name) => listIn(list).map((item) => MAPPED[textIn(name!)]?.(str(item))),
  /** With numbers as keys. */
  dictsort: ({ value: mapping }) =>
    [...(mapping as ReadonlyMap<string, Held>)]
      .map(([key, { value }]) => [Number(key), value] as const)
      .toSorted(([a], [b]) => a - b),
}

/** The interpreter gives a function of a variable the bare values, but those in a list with their types. */
const FUNCTIONS = Object.fromEntries(
  Object.entries(VALUES).map(([name, value]) => [
    ` ${name}`,
    ([first, ...rest]: readonly Held[]) => value(first!, ...rest),
  ]),
)

/** Filters that Python applies to the text of any value. */
const TEXT_FILTERS = new Set('string upper lower title capitalize trim replace'.split(' '))
const STRIPS = new Set(['strip', 'lstrip', 'rstrip'])

/** Throws if the source cannot be parsed. */
export function interpreter(source: string): (variables: object) => string {
  const template = new Template(source)
  rewritten(template.parsed, new Set())
  return (variables) => template.render({ ...variables, ...FUNCTIONS })
}

/** Changes the tree in place, children first. What a loop or an assignment binds stays as it is. */
function rewritten(node: unknown, numbered: Set<string>): unknown {
  if (Array.isArray(node)) return node.map((each) => rewritten(each, numbered))
  if (node instanceof Map)
    return new Map([...node].map((pair) => rewritten(pair, numbered) as [unknown, unknown]))
  if (typeof node !== 'object' || node === null || !('type' in node)) return node
  for (const [name, child] of Object.entries(node)) {
    if (name === 'loopvar' || name === 'assignee') continue
    Object.assign(node, { [name]: rewritten(child, numbered) })
  }
  const rule = RULES[String(node.type)] as
    | ((node: object, names: Set<string>) => unknown)
    | undefined
  return rule === undefined ? node : rule(node, numbered)
}

const RULES: Readonly<Record<string, Rule>> = {
  FilterExpression: filtered,
  BinaryExpression: compared,
  CallExpression: called,
  TupleLiteral: (node: ListLiteral) => Object.assign(node, { type: 'ArrayLiteral' }),
  Set: numberKeys,
  MemberExpression: (node: Mutable<Member>, numbered: Set<string>) => {
    if (node.computed && isNamed(node.object, numbered)) node.property = of('str', node.property)
    return node
  },
}

/** The first node of a template, made of the library's own classes, which it looks for. */
function firstIn<Node>(source: string): Node {
  const [node] = new Template(source).parsed.body as unknown as readonly [Node]
  return node
}

/** A call of one of the functions. */
function of(name: string, ...args: readonly SyntaxNode[]): SyntaxNode {
  const call = firstIn<Call>('{{ f([]) }}')
  Object.assign(call.callee, { value: ` ${name}` })
  Object.assign(call.args[0]!, { value: args })
  return call
}

function isNamed(node: SyntaxNode, names: ReadonlySet<string>): boolean {
  return node.type === 'Identifier' && names.has((node as Named).value)
}

function filtered(node: Mutable<Filter>, numbered: Set<string>): SyntaxNode {
  const isCall = node.filter.type === 'CallExpression'
  const named = isCall ? (node.filter as Call).callee : node.filter
  const [argument] = isCall ? (node.filter as Call).args : []
  const { value: name } = named as Named
  if (TEXT_FILTERS.has(name)) node.operand = of(name === 'string' ? 'str' : 'text', node.operand)
  if (name === 'map' && argument?.type === 'StringLiteral' && (argument as Named).value in MAPPED)
    return of('map', node.operand, argument)
  if (isCall) return node
  if (name === 'min' || name === 'max') return of(name, node.operand)
  return name === 'dictsort' && isNamed(node.operand, numbered) ? of(name, node.operand) : node
}

function compared(node: Mutable<BinaryOperation>): SyntaxNode {
  const { left, right } = node
  const { value: operator } = node.operator
  if (operator === '*' && left.type === 'StringLiteral') return of(operator, left, right)
  if (operator === 'in' || operator === 'not in') return of(operator, left, right)
  return operator === '~'
    ? Object.assign(node, { left: of('text', left), right: of('text', right) })
    : node
}

function called(node: Call): SyntaxNode {
  const { object, property, computed } = node.callee as Member
  if (node.callee.type !== 'MemberExpression' || computed) return node
  const { value: name } = property as Named
  // In Python the method, also of a mapping with such a key (`items` of a JSON schema).
  if (name === 'items' && node.args.length === 0) return items(object)
  if (STRIPS.has(name) && node.args.length === 1) return of(name, object, ...node.args)
  const isFormat = name === 'format' && !node.args.some(({ type }) => type.includes('Keyword'))
  return isFormat ? of(name, object, ...node.args) : node
}

function items(operand: SyntaxNode): SyntaxNode {
  return Object.assign(firstIn<Filter>('{{ x | items }}'), { operand })
}

/** `{% set names = {0: …} %}`: the interpreter keeps texts, which are read as numbers where the name is used. */
function numberKeys(
  node: {
    readonly type: string
    readonly assignee: SyntaxNode
    readonly value: { readonly type: string; readonly value: unknown } | null
  },
  numbered: Set<string>,
): SyntaxNode {
  if (node.assignee.type !== 'Identifier' || node.value?.type !== 'ObjectLiteral') return node
  const keys = [...(node.value.value as Map<Mutable<Named> & { type: string }, unknown>).keys()]
  if (keys.length === 0 || keys.some(({ type }) => type !== 'IntegerLiteral')) return node
  for (const key of keys) Object.assign(key, { type: 'StringLiteral', value: String(key.value) })
  numbered.add((node.assignee as Named).value)
  return node
}
