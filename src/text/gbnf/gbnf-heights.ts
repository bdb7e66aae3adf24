/** How soon the texts of the rules of a grammar can end. */
import type { GbnfNode } from './gbnf-syntax.ts'

/** The minimum depth of a text of each rule; rules without a finite text are missing. */
export function heightsOf(rules: ReadonlyMap<string, GbnfNode>): ReadonlyMap<string, number> {
  const heights = new Map<string, number>()
  for (let isChanged = true; isChanged;) {
    isChanged = false
    for (const [name, node] of rules) {
      const height = 1 + heightOf(node, heights)
      if (height >= (heights.get(name) ?? Infinity)) continue
      heights.set(name, height)
      isChanged = true
    }
  }
  return heights
}

export function heightOf(node: GbnfNode, heights: ReadonlyMap<string, number>): number {
  switch (node.kind) {
    case 'class':
      return 1
    case 'rule':
      return heights.get(node.name) ?? Infinity
    case 'sequence':
      return node.parts.reduce((sum, part) => sum + heightOf(part, heights), 0)
    case 'choice':
      return Math.min(...node.options.map((option) => heightOf(option, heights)))
    case 'repeat':
      return node.least === 0 ? 0 : node.least * heightOf(node.part, heights)
  }
}
