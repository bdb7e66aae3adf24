/**
 * The kinds of servers: the name of each in `--upstream` and `--engine`, and its dialect.
 *
 * Owns: the list. A dialect is loaded on demand, so that code which only needs the names loads none.
 */
import type { Clock } from '../../base/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { Dialect } from './dialect.ts'

interface DialectOptions {
  readonly mode: DisaggregationMode
  readonly clock: Clock
  readonly slotFolder?: string
  /** Called for limitations, with a text for the operator. */
  readonly onNote?: (note: string) => void
}

const DIALECTS = {
  vllm: async ({ clock, onNote }) => new (await import('./vllm.ts')).VllmDialect(clock, onNote),
  sglang: async () => new (await import('./sglang.ts')).SglangDialect(),
  'llama-server': async ({ mode, slotFolder }) =>
    new (await import('./llama-server.ts')).LlamaServerDialect(mode, slotFolder),
  openai: async () => new (await import('./openai.ts')).OpenAiDialect(),
} as const satisfies Record<string, (options: DialectOptions) => Promise<Dialect>>

export type UpstreamKind = keyof typeof DIALECTS

function isUpstreamKind(name: string): name is UpstreamKind {
  return Object.hasOwn(DIALECTS, name)
}

export const UPSTREAM_KINDS: readonly UpstreamKind[] = Object.keys(DIALECTS).filter(isUpstreamKind)

export function createDialect(kind: UpstreamKind, options: DialectOptions): Promise<Dialect> {
  return DIALECTS[kind](options)
}
