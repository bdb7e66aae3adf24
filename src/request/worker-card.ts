/**
 * The worker card: what a worker publishes when it registers (identity, address, model, capacity). An absent field is
 * not advertised, and the router uses a default.
 */
import type { WorkerId } from '../base/index.ts'
import type { DisaggregationMode } from './disaggregation-mode.ts'
import type { EnginePace } from './engine-pace.ts'

/** What an engine reports after it has started. */
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
  /** Location of the model's tokenizer and chat template: a GGUF file or a Hugging Face folder. */
  readonly modelPath?: string
  /**
   * Digest of tokenizer and template if only the engine has them; equal if two engines produce the same prompt from a
   * chat.
   */
  readonly textDigest?: string
  /** Dimension of an embedding, for an engine with the feature `embeddings`. */
  readonly embeddingLength?: number
  /** LoRA adapters of the engine; each is also a model name, and its requests go to workers that have it. */
  readonly loraAdapters?: readonly string[]
  /**
   * Request features that the engine supports; the frontend refuses other ones by name. An engine that names none has
   * none. On a card, absent means that the worker does not say (Baton 0.1).
   */
  readonly features?: readonly EngineFeature[]
  /** Speed of the engine, if it was measured in advance. */
  readonly pace?: EnginePace
  readonly runtimeData?: Readonly<Record<string, unknown>>
}

export type EngineFeature =
  | 'logprobs'
  /** Log-probabilities of prompt tokens, too. */
  | 'prompt_logprobs'
  | 'guided'
  /**
   * Like `guided`, with the GBNF grammars of room `text`: constraints that these cannot express are refused before
   * the engine is called.
   */
  | 'gbnf'
  /** Simulated engine: draws a text of the grammar at random, so all that the grammar leaves open is random. */
  | 'drawn_texts'
  /** Simulated engine: generates random tool calls from the grammar of allowed calls (`extra.callGrammar`). */
  | 'drawn_calls'
  | 'penalties'
  | 'logit_bias'
  | 'min_p'
  | 'seed'
  | 'embeddings'

/** Digests of what turns text into token ids; equal digests mean equal ids for equal text. */
export interface ModelTextDigest {
  /** Digest of the names of all token ids. */
  readonly vocabulary?: string
  /** Digest of the token ids of a fixed set of texts. */
  readonly tokenizer?: string
  /** Digest of the chat template's source. */
  readonly template?: string
  /** Digest of the weights, if they can be read, or as configured. */
  readonly weights?: string
}

/** A tokenizer or template file, which a worker sends to a frontend that does not have it. */
export interface ModelTextFile {
  readonly name: string
  readonly bytes: number
  readonly sha256: string
}

export interface ModelTextManifest {
  /** Hash over all files; equal on every worker with the same files. */
  readonly hash: string
  readonly files: readonly ModelTextFile[]
}

export interface ModelAgreement extends ModelTextDigest {
  /** Checksum over all fields, including block size and context length. */
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
  /** What must be equal on all workers of the model. Absent: only the fields in `engine` are compared. */
  readonly agreement?: ModelAgreement
  /** Tokenizer and template files can be fetched from this worker. */
  readonly text?: ModelTextManifest
  /** Share of this model version among several versions; see `versionShares`. Absent: equal shares. */
  readonly weight?: number
  /** The worker can change its mode between prefill and decode on request. */
  readonly changesRole?: boolean
  /** The worker publishes KV events (decode workers never do). */
  readonly publishesKvEvents: boolean
  readonly taints?: readonly string[]
  readonly topology?: Readonly<Record<string, string>>
  readonly startedAtEpochMs?: number
  readonly version: string
}

export function servedModelNames(engine: EngineConfig): readonly string[] {
  return [engine.servedModelName ?? engine.model, ...(engine.modelAliases ?? [])]
}

/** Equal for workers whose tokenizer and template come from the same files. */
export function modelFilesKey({ engine, text, agreement }: WorkerCard): string {
  return JSON.stringify([engine.modelPath, text?.hash, agreement?.checksum])
}

/** The upstream server behind the worker, as configured by the operator; null: the worker has its own engine. */
export function upstreamUrl({ engine }: WorkerCard): string | null {
  const url = engine.runtimeData?.['upstream_url']
  return typeof url === 'string' ? url : null
}

/** Where the legs of a request meet, which then run at once; null: the prefill worker has no such address. */
export function bootstrapAddress({ engine }: WorkerCard): { host: string; port: number } | null {
  const { bootstrapHost: host, bootstrapPort: port } = engine
  return host === undefined || port === undefined ? null : { host, port }
}

/** True if tokenizer and template are only in the engine, which is called for them. */
export function hasRemoteTokenizer({ engine }: WorkerCard): boolean {
  return engine.runtimeData?.['remote_tokenizer'] === true
}
