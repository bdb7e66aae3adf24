/** The user's options of the llama.cpp engine, validated and completed with defaults once. */
import { availableParallelism } from 'node:os'
import { BatonError } from '../../base/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import type { GpuChoice } from '../native/library-files.ts'

export interface LlamaCppOptions {
  readonly modelPath: string
  /** The model's name; absent: the file's name without its extension. */
  readonly modelName?: string
  readonly mode?: DisaggregationMode
  /** Tokens per sequence; absent: the model's own, at most 8192. */
  readonly contextSize?: number
  /** Most concurrent requests; others wait. */
  readonly sequences?: number
  readonly queueMax?: number
  readonly gpu?: GpuChoice
  readonly gpuLayers?: number
  readonly threads?: number
  /** Prompt tokens that are computed between two decode steps. */
  readonly prefillChunk?: number
  readonly kvStoreBytes?: number
  readonly flashAttention?: boolean
  readonly blockTokens?: number
  /** Tokens that llama.cpp computes at once (ubatch); it splits larger pieces. */
  readonly microBatch?: number
  /** The data type of K and V. */
  readonly kvType?: KvType
  /**
   * `exact`: a request's tokens do not depend on its worker or on the other requests in a batch
   * (docs/decisions/exact-hand-over.md). `auto`: exact if a test at the start shows that it costs nothing, otherwise
   * `throughput`.
   */
  readonly batching?: 'auto' | 'exact' | 'throughput'
}

/** The numbers of ggml's types by name. */
export const KV_TYPES = { f32: 0, f16: 1, q4_0: 2, q8_0: 8, bf16: 30 } as const
export type KvType = keyof typeof KV_TYPES

export type LlamaCppConfig = Required<Omit<LlamaCppOptions, 'contextSize' | 'modelName'>> &
  Pick<LlamaCppOptions, 'contextSize' | 'modelName'>

const QUANTISED: ReadonlySet<KvType> = new Set(['q4_0', 'q8_0'])

const DEFAULTS = {
  mode: 'agg',
  sequences: 8,
  queueMax: 256,
  gpu: false,
  gpuLayers: 0,
  threads: 1,
  prefillChunk: 256,
  kvStoreBytes: 256 * 1024 * 1024,
  flashAttention: true,
  blockTokens: 16,
  microBatch: 512,
  kvType: 'f16',
  batching: 'exact',
} as const satisfies Partial<LlamaCppOptions>

/** Throws `config.invalid` and names the option. */
export function compileLlamaCppOptions(options: LlamaCppOptions): LlamaCppConfig {
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  const config: LlamaCppConfig = { ...DEFAULTS, ...(Object.fromEntries(given) as LlamaCppOptions) }
  within('sequences', config.sequences, 1, 256)
  within('queueMax', config.queueMax, 1, 1_000_000)
  within('threads', config.threads, 1, 1024)
  checkCores(config.threads, availableParallelism())
  within('prefillChunk', config.prefillChunk, 1, 65_536)
  within('microBatch', config.microBatch, 64, 65_536)
  within('blockTokens', config.blockTokens, 1, 1024)
  within('kvStoreBytes', config.kvStoreBytes, 0, Number.MAX_SAFE_INTEGER)
  within('gpuLayers', config.gpuLayers, 0, 100_000)
  if (config.contextSize !== undefined) within('contextSize', config.contextSize, 2, 10_000_000)
  if (!config.flashAttention && QUANTISED.has(config.kvType))
    throw new BatonError(
      'config.invalid',
      `llama.cpp supports kvType ${config.kvType} only with flash attention: enable it, or use another kvType`,
    )
  if (config.mode !== 'agg' && config.kvStoreBytes === 0)
    throw new BatonError('config.invalid', `kvStoreBytes must not be 0 for a ${config.mode} worker`)
  return Object.freeze(config)
}

/** Threads per core above which a step takes so long that the start seems to hang. */
const THREADS_PER_CORE = 2

function checkCores(threads: number, cores: number): void {
  if (threads <= Math.max(2, THREADS_PER_CORE * cores)) return
  throw new BatonError(
    'config.invalid',
    `llama.cpp option threads is ${threads}, but there are ${cores} cores: its threads wait for each other in a loop, so use at most one per core`,
  )
}

function within(name: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return
  throw new BatonError(
    'config.invalid',
    `llama.cpp option ${name} must be a whole number from ${least} to ${most}, not ${value}`,
  )
}
