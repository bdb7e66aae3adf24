/**
 * The kinds of workers that a plan may use: their engine, start-up time and cost, from `--workers` and `--costs`.
 */
import { modeName } from '../../request/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
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

const ROLES = ['aggregated', 'prefill', 'decode'] as const

/**
 * Every kind of aggregated worker, and every kind of prefill worker with every kind of decode worker. `groups` are
 * those of `--workers`, if it is given.
 */
export function planVariants(groups: readonly FleetGroup[], flags: Flags): PlanVariant[] {
  const standard = costsOf(flags['costs'])
  if (flags['workers'] === undefined) {
    // One kind of engine for every role; the numbers of workers come from the search.
    const { engine = {}, pace } = groups[0] ?? {}
    const kind = (mode: DisaggregationMode): PlanKind => ({
      group: { mode, count: 1, engine, ...(pace === undefined ? {} : { pace }) },
      cost: standard[modeName(mode)],
    })
    return [{ aggregated: kind('agg') }, { prefill: kind('prefill'), decode: kind('decode') }]
  }
  const ofMode = (mode: DisaggregationMode): PlanKind[] =>
    groups
      .filter((group) => group.mode === mode)
      .map((group) => ({ group, cost: group.cost ?? standard[modeName(mode)] }))
  return [
    ...ofMode('agg').map((aggregated) => ({ aggregated })),
    ...ofMode('prefill').flatMap((prefill) =>
      ofMode('decode').map((decode) => ({ prefill, decode })),
    ),
  ]
}

/** `3 aggregated`, or `1 prefill (speed=2) + 2 decode`. */
export function sizeName(size: FleetSize, variant: PlanVariant): string {
  const roles = ROLES.filter((role) => size[role] > 0)
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
  const pairs = parsePairs('--costs', typeof given === 'string' ? given : '', ROLES)
  const cost = (role: string): number => numberOf(`--costs ${role}`, pairs.get(role) ?? 1)
  return { aggregated: cost('aggregated'), prefill: cost('prefill'), decode: cost('decode') }
}
