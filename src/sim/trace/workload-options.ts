/**
 * What a workload can be told.
 */
import type { WorkloadArrivals } from './arrivals.ts'

export const WORKLOAD_KINDS = ['random', 'shared-prefix', 'chat', 'agents', 'rag', 'mix'] as const
export type WorkloadKind = (typeof WORKLOAD_KINDS)[number]

export interface WorkloadOptions {
  readonly kind: WorkloadKind
  readonly arrivals?: WorkloadArrivals
  /** Of requests, turns included. */
  readonly requests: number
  /** Turns count as requests: sessions begin that much more rarely. */
  readonly requestsPerSecond: number
  readonly seed?: number
  /** Mean tokens of what is new in a prompt; each kind has its own. */
  readonly inputTokens?: number
  readonly outputTokens?: number
  /** Documents, prefixes or tools that requests share. */
  readonly groups?: number
  /** Turns per session, mean. */
  readonly turns?: number
  /** Between the end of a turn and the next one, mean. */
  readonly thinkMs?: number
}

/** Mean turns of a session, where the options do not say. */
export const SESSION_TURNS: Readonly<Record<WorkloadKind, number>> = {
  random: 1,
  'shared-prefix': 1,
  chat: 5,
  agents: 15,
  rag: 1,
  mix: 1,
}
