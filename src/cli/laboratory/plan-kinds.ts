/**
 * The kinds of workers that a plan may use: their engine, start-up time and cost, from `--workers` and `--costs`.
 */
import type { FleetGroup, FleetSize } from '../../sim/index.ts'
import type { Flags } from './lab-flags.ts'
import { numberOf, parsePairs } from './lab-pairs.ts'

interface PlanKind {
  /** The group of `--workers`, whose number of workers is not used. */
  readonly group: FleetGroup
  readonly cost: number
}

/** One kind of worker for each role; an absent role is not searched. */
export type PlanVariant = Readonly<Partial<Record<keyof FleetSize, PlanKind>>>

const ROLES = { agg: 'aggregated', prefill: 'prefill', decode: 'decode' } as const

/** Removes `cost=` from the groups of `--workers`, because it is no argument of an engine. */
export function withoutCosts(flags: Flags): {
  readonly flags: Flags
  readonly costs: readonly (number | null)[]
} {
  const specs = (flags['workers'] as readonly string[] | undefined) ?? []
  const costs: (number | null)[] = []
  const workers = specs.map((spec) => {
    const [mode = '', count = '', ...rest] = spec.split(':')
    const parts = rest.join(':').split(',')
    const cost = parts.find((part) => part.trim().startsWith('cost='))
    costs.push(cost === undefined ? null : numberOf('--workers cost', cost.split('=')[1]))
    const others = parts.filter((part) => part !== cost && part !== '').join(',')
    return [mode, count, ...(others === '' ? [] : [others])].join(':')
  })
  return { flags: { ...flags, workers }, costs }
}

/**
 * Every kind of aggregated worker, and every kind of prefill worker with every kind of decode worker. `groups`: of
 * `--workers`, in its order; `costs`: their own costs.
 */
export function planVariants(
  groups: readonly FleetGroup[],
  costs: readonly (number | null)[],
  given: Flags[string],
): PlanVariant[] {
  const standard = costsOf(given)
  if (costs.length === 0) {
    // One kind of engine for every role; the numbers of workers come from the search.
    const { engine = {}, pace } = groups[0] ?? {}
    const kind = (mode: keyof typeof ROLES): PlanKind => ({
      group: { mode, count: 1, engine, ...(pace === undefined ? {} : { pace }) },
      cost: standard[ROLES[mode]],
    })
    return [{ aggregated: kind('agg') }, { prefill: kind('prefill'), decode: kind('decode') }]
  }
  const ofMode = (mode: keyof typeof ROLES): PlanKind[] =>
    groups.flatMap((group, i) =>
      group.mode === mode ? [{ group, cost: costs[i] ?? standard[ROLES[mode]] }] : [],
    )
  return [
    ...ofMode('agg').map((aggregated) => ({ aggregated })),
    ...ofMode('prefill').flatMap((prefill) =>
      ofMode('decode').map((decode) => ({ prefill, decode })),
    ),
  ]
}

/** `3 aggregated`, or `1 prefill (speed=2) + 2 decode`. */
export function sizeName(size: FleetSize, variant: PlanVariant): string {
  const roles = (['aggregated', 'prefill', 'decode'] as const).filter((role) => size[role] > 0)
  return roles.map((role) => `${size[role]} ${role}${variant[role]?.group.name ?? ''}`).join(' + ')
}

/** The workers of a fleet of this size. */
export function workersOf(size: FleetSize, variant: PlanVariant): FleetGroup[] {
  return (['prefill', 'decode', 'aggregated'] as const).flatMap((role) => {
    const kind = variant[role]
    return kind === undefined || size[role] === 0 ? [] : [{ ...kind.group, count: size[role] }]
  })
}

function costsOf(given: Flags[string]): FleetSize {
  const names = Object.values(ROLES)
  const pairs = parsePairs('--costs', typeof given === 'string' ? given : '', names)
  const cost = (role: string): number => numberOf(`--costs ${role}`, pairs.get(role) ?? 1)
  return { aggregated: cost('aggregated'), prefill: cost('prefill'), decode: cost('decode') }
}
