/**
 * The workers of `baton serve`: what runs beside the frontend, in whichever way, and how many of which role.
 */
import type { DisaggregationMode } from '../../request/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/**
 * For a worker to come up, and for the frontend to be connected to it. A worker gives its engine up itself: it is waited
 * for a little longer, to hear why.
 */
export function startDeadlineMs(config: ServeConfig): number {
  return config.startTimeoutSeconds * 1000 + 10_000
}

/** What is to be served, as it was decided once for all processes. */
export interface ServePlan {
  readonly config: ServeConfig
  readonly options: readonly ResolvedOption[]
  /** What the process of a worker or of a further frontend runs. */
  readonly script: string
  /** Where workers are found, as the text of --discovery. */
  readonly meeting: string
}

export interface Fleet {
  readonly workers: number
  /** Starts them on the first call; each call resolves when all are up. */
  start(): Promise<void>
  stop(deadlineMs: number): Promise<void>
  kill(): void
}

export function fleetRoles(
  config: ServeConfig,
): { readonly name: string; readonly mode: DisaggregationMode; readonly isAuto: boolean }[] {
  const of = (mode: DisaggregationMode, name: string, count: number) =>
    Array.from({ length: count }, (_, index) => ({
      mode,
      name: `${name} ${index + 1}`,
      isAuto: config.autoRoles && mode === 'decode',
    }))
  return [
    ...of('prefill', 'prefill', config.prefill),
    ...of('decode', 'decode', config.decode),
    ...of('agg', 'aggregated', config.aggregated),
  ]
}
