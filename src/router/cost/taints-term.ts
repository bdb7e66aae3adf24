/** The cost term of preferred taints; the same whether costs are in blocks or in milliseconds. */
import type { BuiltInTerm } from './cost-term.ts'

export const TAINTS_TERM = {
  name: 'taints',
  unit: 'factor',
  role: 'factor',
  weight: 1,
  help: 'exp(−tanh(Σ weights)) of the preferred taints that the worker has',
  applies: ({ hasPreferredTaints }) => hasPreferredTaints,
  of: (candidate) => candidate.taintFactor,
} as const satisfies BuiltInTerm
