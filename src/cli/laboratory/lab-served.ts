/**
 * What a configuration that serves says of its engines, for a fleet that imitates them: how many servers there are
 * (`upstream`), and how fast they are (`enginePace`).
 */
import type { DisaggregationMode, EnginePace } from '../../request/index.ts'
import type { FleetGroup } from '../../sim/index.ts'
import type { SchedulerOptions } from '../../simengine/index.ts'
import { paceSetting } from '../options/pace-setting.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { namedUpstreams } from '../options/upstream-options.ts'
import { refusal } from './lab-pairs.ts'

/** Servers of others take the time that is said of them, else that of the simulated engine: their name says so. */
export const AS_UPSTREAM = ' (upstream)'
const SAY_HOW_MANY = 'say how many servers there are with --aggregated, or --prefill and --decode'

/** By role, in the order of their names. Empty: the configuration is of no gateway. */
export function upstreamCounts(
  given: readonly ResolvedOption[],
): readonly (readonly [DisaggregationMode, number])[] {
  if (saidOf(given, 'upstreamFile') !== null)
    throw refusal('upstreamFile', `the laboratory does not read it: ${SAY_HOW_MANY}`)
  const counts = new Map<DisaggregationMode, number>()
  for (const { mode = 'agg', isDns, url } of namedUpstreams(saidOf(given, 'upstream'))) {
    if (isDns === true) throw refusal('upstream', `only DNS knows who ${url} is: ${SAY_HOW_MANY}`)
    counts.set(mode, (counts.get(mode) ?? 0) + 1)
  }
  return [...counts]
}

export function servedPace(given: readonly ResolvedOption[]): EnginePace | null {
  return paceSetting(saidOf(given, 'enginePace'))
}

/** An engine that takes as long as its pace says. */
export function paceTiming(pace: EnginePace): NonNullable<SchedulerOptions['timing']> {
  const { promptMs, promptTokenMs, stepMs, stepRequestMs, stepContextTokenMs } = pace
  return {
    kind: 'linear',
    prefill: [promptMs, promptTokenMs],
    decode: [stepMs, stepRequestMs, stepContextTokenMs],
  }
}

/** Its workers say so of themselves. */
export function withPace(group: FleetGroup, pace: EnginePace | null = null): FleetGroup {
  return pace === null ? group : { ...group, pace }
}

function saidOf(given: readonly ResolvedOption[], key: string): string | null {
  const found = given.find(({ option }) => option.key === key)
  return found === undefined || found.source === 'default' ? null : String(found.value)
}
