/**
 * The options of a workload.
 */
import type { WorkloadArrivals } from './arrivals.ts'

export const WORKLOAD_KINDS = ['random', 'shared-prefix', 'chat', 'agents', 'rag', 'mix'] as const
export type WorkloadKind = (typeof WORKLOAD_KINDS)[number]

export interface WorkloadOptions {
  readonly kind: WorkloadKind
  readonly arrivals?: WorkloadArrivals
  /** Number of requests, turns included. */
  readonly requests: number
  /** Turns count as requests, so sessions start at a lower rate. */
  readonly requestsPerSecond: number
  readonly seed?: number
  /** Mean number of new tokens in a prompt (in a short one of `mix`); the default depends on the kind. */
  readonly inputTokens?: number
  readonly outputTokens?: number
  /** Number of documents, prefixes or tools that requests share. */
  readonly groups?: number
  /** Mean number of turns per session. */
  readonly turns?: number
  /** Mean pause between the end of a turn and the next one. */
  readonly thinkMs?: number
}

/** Mean turns of a session when the options do not set it. */
export const SESSION_TURNS: Readonly<Record<WorkloadKind, number>> = {
  random: 1,
  'shared-prefix': 1,
  chat: 5,
  agents: 15,
  rag: 1,
  mix: 1,
}

type ShapeOption = 'inputTokens' | 'outputTokens' | 'groups' | 'turns' | 'thinkMs'

/** The options of the shapes, with their names on the command line. */
export const SHAPE_OPTIONS: Readonly<Record<ShapeOption, string>> = {
  inputTokens: 'input',
  outputTokens: 'output',
  groups: 'groups',
  turns: 'turns',
  thinkMs: 'think',
}

const LENGTHS = ['inputTokens', 'outputTokens'] as const
const SESSIONS = [...LENGTHS, 'turns', 'thinkMs'] as const

/** Other options of a shape would have no effect. */
export const OPTIONS_OF: Readonly<Record<WorkloadKind, readonly ShapeOption[]>> = {
  random: LENGTHS,
  'shared-prefix': [...LENGTHS, 'groups'],
  chat: SESSIONS,
  agents: [...SESSIONS, 'groups'],
  rag: [...LENGTHS, 'groups'],
  mix: LENGTHS,
}
