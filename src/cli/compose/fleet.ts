/**
 * The interface of the workers that `baton serve` starts beside the frontend, and how many of each role there
 * are.
 */
import type { DisaggregationMode } from '../../request/index.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/**
 * Milliseconds for a worker to start and for the frontend to connect to it. A worker gives up its engine after
 * `engineStartSeconds` itself; the parent waits a little longer to learn why.
 */
export function startDeadlineMs(config: ServeConfig): number {
  return config.startTimeoutSeconds * 1000 + 10_000
}

/** What `baton serve` runs, decided once for all processes. */
export interface ServePlan {
  readonly config: ServeConfig
  readonly options: readonly ResolvedOption[]
  /** The program that the process of a worker or of a further frontend runs. */
  readonly script: string
  /** Where workers register, as the text of --discovery. */
  readonly meeting: string
}

export interface Fleet {
  readonly workers: number
  /** The first call starts the workers; every call resolves when all are up. */
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
