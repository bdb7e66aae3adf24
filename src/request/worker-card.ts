/**
 * What a worker reports when it registers: who it is, where it is, what it serves and how much it can take.
 * Absent = not advertised; the router falls back.
 */
import type { WorkerId } from '../base/index.ts'
import type { DisaggregationMode } from './disaggregation-mode.ts'
import type { EnginePace } from './engine-pace.ts'

/** What an engine reports when it has started. */
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
  /** Of tokenizer and template, where only the engine has them; equal at engines that make the same of a chat. */
  readonly textDigest?: string
  /** Numbers of an embedding, for an engine with the feature `embeddings`. */
  readonly embeddingLength?: number
  /** LoRA adapters that the engine has; each is a model name of its own, and prompts for it go to who has it. */
  readonly loraAdapters?: readonly string[]
  /** Request features that the engine honours; the frontend refuses the others by name. */
  readonly features?: readonly EngineFeature[]
  /** How long it computes, where that was measured before. */
  readonly pace?: EnginePace
  readonly runtimeData?: Readonly<Record<string, unknown>>
}

export type EngineFeature =
  | 'logprobs'
  /** Of the prompt's tokens as well. */
  | 'prompt_logprobs'
  | 'guided'
  /** `guided` by the grammars of room `text`: what they cannot say is refused before the engine is asked. */
  | 'gbnf'
  /** Calls tools at random: it is given the grammar of what it may call (`extra.callGrammar`). */
  | 'drawn_calls'
  | 'penalties'
  | 'logit_bias'
  | 'min_p'
  | 'seed'
  | 'embeddings'

/** Digests of what turns text into token ids; equal digests mean equal ids for equal text. */
export interface ModelTextDigest {
  /** Of the name of each id. */
  readonly vocabulary?: string
  /** Of the ids that a fixed set of texts gets. */
  readonly tokenizer?: string
  /** Of the chat template's source. */
  readonly template?: string
  /** Of the model's numbers, where they can be read, or as the worker was told. */
  readonly weights?: string
}

/** A file of the model's text side, as any worker of the model sends it to a frontend that has it not. */
export interface ModelTextFile {
  readonly name: string
  readonly bytes: number
  readonly sha256: string
}

export interface ModelTextManifest {
  /** Over all files: the same text side has the same hash at every worker. */
  readonly hash: string
  readonly files: readonly ModelTextFile[]
}

export interface ModelAgreement extends ModelTextDigest {
  /** Over all of it, block size and context length included. */
  readonly checksum: string
}

export interface WorkerCard {
  readonly workerId: WorkerId
  readonly mode: DisaggregationMode
  /** Address of the request plane. */
  readonly host: string
  readonly port: number
  readonly pid?: number
  readonly engine: EngineConfig
  readonly engineName: string
  /** What must agree with the other workers of the model. Absent: only what `engine` says is compared. */
  readonly agreement?: ModelAgreement
  /** Its text side can be fetched here. */
  readonly text?: ModelTextManifest
  /** Of requests that may go to several versions of the model; see `versionShares`. Absent: as the others. */
  readonly weight?: number
  /** It can be told to be another kind of worker: prefill or decode. */
  readonly changesRole?: boolean
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

/** The server that the worker stands for, as an operator knows it; null: the worker computes itself. */
export function upstreamUrl({ engine }: WorkerCard): string | null {
  const url = engine.runtimeData?.['upstream_url']
  return typeof url === 'string' ? url : null
}

/** Tokenizer and template of its model are at the engine, which is asked for them. */
export function hasRemoteTokenizer({ engine }: WorkerCard): boolean {
  return engine.runtimeData?.['remote_tokenizer'] === true
}
