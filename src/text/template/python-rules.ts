/**
 * The interpreter of `@huggingface/jinja` with the rules of Jinja in Python, for which templates are written, where
 * published ones need them: values have a text (`none | string`, `list | upper`, `~`), lists are compared by their
 * items, tuples are lists, `strip` takes characters, `items` is a method also of a mapping with such a key.
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
import { contains, str, textIn } from './python-values.ts'
import type { Held } from './python-values.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type Rule = (node: never) => SyntaxNode
type Value = (...args: readonly [Held, ...Held[]]) => unknown

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
  rewritten(template.parsed)
  return (variables) => template.render({ ...variables, ...FUNCTIONS })
}

/** Changes the tree in place, children first. What a loop or an assignment binds stays as it is. */
function rewritten(node: unknown): unknown {
  if (Array.isArray(node)) return node.map((each) => rewritten(each))
  if (node instanceof Map)
    return new Map([...node].map((pair) => rewritten(pair) as [unknown, unknown]))
  if (typeof node !== 'object' || node === null || !('type' in node)) return node
  for (const [name, child] of Object.entries(node)) {
    if (name === 'loopvar' || name === 'assignee') continue
    Object.assign(node, { [name]: rewritten(child) })
  }
  const rule = RULES[String(node.type)] as ((node: object) => unknown) | undefined
  return rule === undefined ? node : rule(node)
}

const RULES: Readonly<Record<string, Rule>> = {
  FilterExpression: filtered,
  BinaryExpression: compared,
  CallExpression: called,
  TupleLiteral: (node: ListLiteral) => Object.assign(node, { type: 'ArrayLiteral' }),
}

/** A call of one of the functions, made of the library's own classes, which it looks for. */
function of(name: string, ...args: readonly SyntaxNode[]): SyntaxNode {
  const [call] = new Template('{{ f([]) }}').parsed.body as unknown as readonly [Call]
  Object.assign(call.callee, { value: ` ${name}` })
  Object.assign(call.args[0]!, { value: args })
  return call
}

function filtered(node: Mutable<Filter>): SyntaxNode {
  const isCall = node.filter.type === 'CallExpression'
  const named = isCall ? (node.filter as Call).callee : node.filter
  const { value: name } = named as Named
  if (TEXT_FILTERS.has(name)) node.operand = of(name === 'string' ? 'str' : 'text', node.operand)
  return node
}

function compared(node: Mutable<BinaryOperation>): SyntaxNode {
  const { left, right } = node
  const { value: operator } = node.operator
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
  return STRIPS.has(name) && node.args.length === 1 ? of(name, object, ...node.args) : node
}

function items(operand: SyntaxNode): SyntaxNode {
  const [filter] = new Template('{{ x | items }}').parsed.body as unknown as readonly [Filter]
  return Object.assign(filter, { operand })
}
