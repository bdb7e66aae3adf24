/** Compiles an expression of a template to a function of the scope. */
import { BINARY, FILTERS, METHODS, minus, not, TESTS } from './operators.ts'
import type {
  BinaryOperation,
  Call,
  Choice,
  Filter,
  KeywordArgument,
  ListLiteral,
  Literal,
  Member,
  Named,
  Selection,
  Slice,
  SyntaxNode,
  Test,
  UnaryOperation,
} from './syntax.ts'
import { fieldOf, GIVE_UP, isInteger, isTrue, itemOf, Namespace } from './values.ts'
import type { Scope } from './values.ts'

export type Expression = (scope: Scope) => unknown

/** Gives up only when executed, so that a template with an unsupported branch is fast while the branch is not taken. */
export const leave: Expression = () => {
  throw GIVE_UP
}

const CONSTANTS = new Map<string, unknown>(
  Object.entries({ true: true, false: false, none: null, True: true, False: false, None: null }),
)
/** Names with a meaning in the interpreter; a variable of the request must not have one of them. */
const FUNCTIONS = ['namespace', 'raise_exception', 'range', 'strftime_now']
export const RESERVED = new Set([...CONSTANTS.keys(), ...FUNCTIONS])

type Compile = (node: never) => Expression

const COMPILERS: Readonly<Record<string, Compile>> = {
  StringLiteral: literal,
  IntegerLiteral: literal,
  ArrayLiteral: list,
  Identifier: identifier,
  MemberExpression: member,
  CallExpression: call,
  BinaryExpression: binary,
  UnaryExpression: unary,
  FilterExpression: filter,
  TestExpression: test,
  Ternary: ternary,
  SelectExpression: select,
}

export function expression(node: SyntaxNode): Expression {
  const compile = COMPILERS[node.type] as ((node: SyntaxNode) => Expression) | undefined
  return compile === undefined ? leave : compile(node)
}

function literal({ value }: Literal): Expression {
  return () => value
}

function list({ value }: ListLiteral): Expression {
  const items = value.map(expression)
  return (scope) => items.map((item) => item(scope))
}

function identifier({ value: name }: Named): Expression {
  if (FUNCTIONS.includes(name)) return leave
  if (!CONSTANTS.has(name)) return (scope) => scope.get(name)
  const constant = CONSTANTS.get(name)
  return () => constant
}

function member({ object, property, computed }: Member): Expression {
  const owner = expression(object)
  if (!computed) {
    const { value } = property as Literal
    if (property.type === 'IntegerLiteral') return (scope) => itemOf(owner(scope), value)
    const name = String(value)
    return (scope) => fieldOf(owner(scope), name)
  }
  if (property.type === 'SliceExpression') return slice(owner, property as Slice)
  const index = expression(property)
  return (scope) => itemOf(owner(scope), index(scope))
}

function slice(owner: Expression, { start, stop, step }: Slice): Expression {
  if (step !== undefined) return leave
  const bound = (node: SyntaxNode | undefined): ((scope: Scope) => number | undefined) => {
    if (node === undefined) return () => undefined
    const compute = expression(node)
    return (scope) => {
      const value = compute(scope)
      if (!isInteger(value)) throw GIVE_UP
      return value
    }
  }
  const [from, to] = [bound(start), bound(stop)]
  return (scope) => {
    const items = owner(scope)
    if (!Array.isArray(items)) throw GIVE_UP
    return items.slice(from(scope), to(scope))
  }
}

function call({ callee, args }: Call): Expression {
  if (callee.type === 'Identifier' && (callee as Named).value === 'namespace') {
    return namespace(args)
  }
  if (callee.type !== 'MemberExpression') return leave
  const { object, property, computed } = callee as Member
  if (computed || property.type !== 'Identifier') return leave
  const method = METHODS.get((property as Named).value)
  if (method === undefined || args.some(({ type }) => type.includes('Keyword'))) return leave
  const owner = expression(object)
  const values = args.map(expression)
  return (scope) =>
    method(
      owner(scope),
      values.map((value) => value(scope)),
    )
}

function namespace(args: readonly SyntaxNode[]): Expression {
  if (args.some(({ type }) => type !== 'KeywordArgumentExpression')) return leave
  const fields = (args as readonly KeywordArgument[]).map(
    ({ key, value }) => [key.value, expression(value)] as const,
  )
  return (scope) => {
    const made = new Namespace()
    for (const [name, value] of fields) made.fields.set(name, value(scope))
    return made
  }
}

function binary({ operator, left, right }: BinaryOperation): Expression {
  const [first, second] = [expression(left), expression(right)]
  if (operator.value === 'and') {
    return (scope) => {
      const value = first(scope)
      return isTrue(value) ? second(scope) : value
    }
  }
  if (operator.value === 'or') {
    return (scope) => {
      const value = first(scope)
      return isTrue(value) ? value : second(scope)
    }
  }
  const compute = BINARY.get(operator.value)
  if (compute === undefined) return leave
  return (scope) => compute(first(scope), second(scope))
}

function unary({ operator, argument }: UnaryOperation): Expression {
  const value = expression(argument)
  if (operator.value === 'not') return (scope) => not(value(scope))
  if (operator.value === '-') return (scope) => minus(value(scope))
  return leave
}

function filter({ operand, filter: node }: Filter): Expression {
  const compute = node.type === 'Identifier' ? FILTERS.get((node as Named).value) : undefined
  if (compute === undefined) return leave
  const value = expression(operand)
  return (scope) => compute(value(scope))
}

function test({ operand, negate, test: { value: name } }: Test): Expression {
  const holds = TESTS.get(name)
  if (holds === undefined) return leave
  const value = expression(operand)
  return (scope) => {
    const seen = value(scope)
    if (typeof seen === 'symbol' || typeof seen === 'function') throw GIVE_UP
    return holds(seen) !== negate
  }
}

function ternary({ condition, trueExpr, falseExpr }: Choice): Expression {
  const [asked, yes, no] = [expression(condition), expression(trueExpr), expression(falseExpr)]
  return (scope) => (isTrue(asked(scope)) ? yes(scope) : no(scope))
}

function select({ lhs, test: node }: Selection): Expression {
  const [value, asked] = [expression(lhs), expression(node)]
  return (scope) => (isTrue(asked(scope)) ? value(scope) : undefined)
}
