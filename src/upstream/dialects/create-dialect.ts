/** The dialect of a kind of server. */
import type { Clock } from '../../base/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { UpstreamKind } from '../kind/upstream-kind.ts'
import type { Dialect } from './dialect.ts'
import { LlamaServerDialect } from './llama-server.ts'
import { OpenAiDialect } from './openai.ts'
import { SglangDialect } from './sglang.ts'
import { VllmDialect } from './vllm.ts'

export interface DialectOptions {
  readonly mode: DisaggregationMode
  readonly clock: Clock
  readonly slotFolder?: string
}

export function createDialect(kind: UpstreamKind, options: DialectOptions): Dialect {
  switch (kind) {
    case 'llama-server':
      return new LlamaServerDialect(options.mode, options.slotFolder)
    case 'vllm':
      return new VllmDialect(options.clock)
    case 'sglang':
      return new SglangDialect()
    case 'openai':
      return new OpenAiDialect()
  }
}
