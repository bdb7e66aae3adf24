/**
 * The part of the syntax tree of `@huggingface/jinja` that is used here. Unknown kinds of nodes are left to the
 * interpreter, so a newer parser may add some.
 */
export interface SyntaxNode {
  readonly type: string
}

export interface Named extends SyntaxNode {
  readonly value: string
}

export interface Literal extends SyntaxNode {
  readonly value: unknown
}

export interface ListLiteral extends SyntaxNode {
  readonly value: readonly SyntaxNode[]
}

export interface Branch extends SyntaxNode {
  readonly test: SyntaxNode
  readonly body: readonly SyntaxNode[]
  readonly alternate: readonly SyntaxNode[]
}

export interface Loop extends SyntaxNode {
  readonly loopvar: SyntaxNode
  readonly iterable: SyntaxNode
  readonly body: readonly SyntaxNode[]
  readonly defaultBlock: readonly SyntaxNode[]
}

export interface Assignment extends SyntaxNode {
  readonly assignee: SyntaxNode
  readonly value: SyntaxNode | null
}

export interface Member extends SyntaxNode {
  readonly object: SyntaxNode
  readonly property: SyntaxNode
  readonly computed: boolean
}

export interface Slice extends SyntaxNode {
  readonly start?: SyntaxNode
  readonly stop?: SyntaxNode
  readonly step?: SyntaxNode
}

export interface Call extends SyntaxNode {
  readonly callee: SyntaxNode
  readonly args: readonly SyntaxNode[]
}

export interface KeywordArgument extends SyntaxNode {
  readonly key: Named
  readonly value: SyntaxNode
}

export interface Operation extends SyntaxNode {
  readonly operator: { readonly value: string }
}

export interface BinaryOperation extends Operation {
  readonly left: SyntaxNode
  readonly right: SyntaxNode
}

export interface UnaryOperation extends Operation {
  readonly argument: SyntaxNode
}

export interface Filter extends SyntaxNode {
  readonly operand: SyntaxNode
  readonly filter: SyntaxNode
}

export interface Test extends SyntaxNode {
  readonly operand: SyntaxNode
  readonly negate: boolean
  readonly test: Named
}

export interface Selection extends SyntaxNode {
  readonly lhs: SyntaxNode
  readonly test: SyntaxNode
}

export interface Choice extends SyntaxNode {
  readonly condition: SyntaxNode
  readonly trueExpr: SyntaxNode
  readonly falseExpr: SyntaxNode
}
