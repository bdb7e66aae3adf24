/**
 * Reads the number of servers (`upstream`) and their speed (`enginePace`) from the configuration of a server,
 * for a simulated fleet that imitates it.
 */
import type { DisaggregationMode, EnginePace } from '../../request/index.ts'
import type { FleetGroup } from '../../sim/index.ts'
import type { SchedulerOptions } from '../../simengine/index.ts'
import { paceSetting } from '../options/pace-setting.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { namedUpstreams } from '../options/upstream-options.ts'
import { refusal } from './lab-pairs.ts'

/**
 * Added to the name of workers that simulate foreign servers. They have the configured pace, or the speed of
 * the simulated engine.
 */
export const AS_UPSTREAM = ' (upstream)'
const SAY_HOW_MANY = 'give the number of servers with --aggregated, or --prefill and --decode'

/** Number of servers by role, in the order of the role names. Empty: the configuration is not of a gateway. */
export function upstreamCounts(
  given: readonly ResolvedOption[],
): readonly (readonly [DisaggregationMode, number])[] {
  if (saidOf(given, 'upstreamFile') !== null)
    throw refusal('upstreamFile', `the laboratory cannot read it: ${SAY_HOW_MANY}`)
  const counts = new Map<DisaggregationMode, number>()
  for (const { mode = 'agg', isDns, url } of namedUpstreams(saidOf(given, 'upstream'))) {
    if (isDns === true)
      throw refusal('upstream', `only DNS knows how many servers ${url} names: ${SAY_HOW_MANY}`)
    counts.set(mode, (counts.get(mode) ?? 0) + 1)
  }
  return [...counts]
}

export function servedPace(given: readonly ResolvedOption[]): EnginePace | null {
  return paceSetting(saidOf(given, 'enginePace'))
}

/** The timing of an engine with the measured pace. */
export function paceTiming(pace: EnginePace): NonNullable<SchedulerOptions['timing']> {
  const { promptMs, promptTokenMs, stepMs, stepRequestMs, stepContextTokenMs } = pace
  return {
    kind: 'linear',
    prefill: [promptMs, promptTokenMs],
    decode: [stepMs, stepRequestMs, stepContextTokenMs],
  }
}

/** Sets the pace of the group's workers, which is also announced on their cards. */
export function withPace(group: FleetGroup, pace: EnginePace | null = null): FleetGroup {
  return pace === null ? group : { ...group, pace }
}

function saidOf(given: readonly ResolvedOption[], key: string): string | null {
  const found = given.find(({ option }) => option.key === key)
  return found === undefined || found.source === 'default' ? null : String(found.value)
}
