/**
 * What a worker says of itself when it registers: who it is, where it is, what it serves and how much it can take.
 * Absent = not advertised; the router falls back.
 */
import type { WorkerId } from '../base/index.ts'
import type { DisaggregationMode } from './disaggregation-mode.ts'

/** What an engine tells of itself when it has started. */
export interface EngineConfig {
  readonly model: string
  readonly servedModelName?: string
  readonly modelAliases?: readonly string[]
  readonly contextLength?: number
  readonly kvCacheBlockSize?: number
  readonly totalKvBlocks?: number
  readonly maxNumSeqs?: number
  readonly maxNumBatchedTokens?: number
  readonly dataParallelSize?: number
  readonly dataParallelStartRank?: number
  readonly bootstrapHost?: string
  readonly bootstrapPort?: number
  /** Where the model's tokenizer and chat template are found: a GGUF file or a Hugging Face folder. */
  readonly modelPath?: string
  /** Numbers of an embedding, for an engine with the feature `embeddings`. */
  readonly embeddingLength?: number
  /** LoRA adapters that the engine has; each is a model name of its own, and prompts for it go to who has it. */
  readonly loraAdapters?: readonly string[]
  /** Request features that the engine honours; the frontend refuses the others by name. */
  readonly features?: readonly EngineFeature[]
  readonly runtimeData?: Readonly<Record<string, unknown>>
}

export type EngineFeature =
  | 'logprobs'
  | 'guided'
  /** `guided` by the grammars of room `text`: what they cannot say is refused before the engine is asked. */
  | 'gbnf'
  | 'penalties'
  | 'logit_bias'
  | 'min_p'
  | 'seed'
  | 'embeddings'

export interface WorkerCard {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
  /** Address of the request plane. */
  readonly host: string
  readonly port: number
  readonly pid?: number
  readonly engine: EngineConfig
  readonly engineName: string
  /** KV events are published (never by decode workers). */
  readonly publishesKvEvents: boolean
  readonly taints?: readonly string[]
  readonly topology?: Readonly<Record<string, string>>
  readonly startedAtEpochMs?: number
  readonly version: string
}

export function servedModelNames(engine: EngineConfig): readonly string[] {
  return [engine.servedModelName ?? engine.model, ...(engine.modelAliases ?? [])]
}
