/** The validated configuration of the simulated scheduler; see `sim-options.ts` for the options. */
import { BatonError } from '../../base/index.ts'
import { createOffloadConfig } from '../blocks/offload-config.ts'
import type { OffloadConfig, OffloadOptions } from '../blocks/offload-config.ts'
import type { OutputReserveConfig } from './output-reserve.ts'
import { createSimTiming } from './sim-timing.ts'
import type { SimTiming, SimTimingOptions } from './sim-timing.ts'
import { createSpeculationConfig } from './speculation-config.ts'
import type { SpeculationConfig, SpeculationOptions } from './speculation-config.ts'

export interface SchedulerConfig {
  readonly blockCount: number
  readonly blockTokens: number
  /** Prompt and output together; Infinity: no limit. */
  readonly maxModelLength: number
  readonly maxSequences: number
  /** Tokens per step, prompt and output together. */
  readonly tokenBudget: number
  readonly prefixCaching: boolean
  readonly chunkedPrefill: boolean
  /** Which sequence is preempted if a running one lacks a block: the newest or the oldest. */
  readonly preemption: 'lifo' | 'fifo'
  /** Blocks that admission keeps free for the output of running sequences. */
  readonly reserve: OutputReserveConfig
  /** Prompt tokens per step; a prompt that is alone in its step may have more. */
  readonly promptBudget: number
  /** Maximum number of requests with prompt tokens per step, and prompt tokens of each; Infinity: no limit. */
  readonly promptsPerStep: number
  readonly promptChunk: number
  readonly waitingOrder: 'arrival' | 'longest-prefix'
  readonly timing: SimTiming
  /** Infinity: computing takes no time. */
  readonly prefillSpeedup: number
  readonly decodeSpeedup: number
  /** Cost of a KV transfer from a prefill worker; null: none. */
  readonly transfer: { readonly msPerToken: number; readonly onlyMissing: boolean } | null
  /** Host memory and disk; null: evicted blocks are lost. */
  readonly offload: OffloadConfig | null
  /** Null: one token per step and request. */
  readonly speculation: SpeculationConfig | null
}

export interface SchedulerOptions {
  readonly engineType?: 'vllm' | 'sglang' | 'trtllm'
  /** Default 16384. */
  readonly blockCount?: number
  /** Default 64 (vllm), 1 (sglang), 32 (trtllm). */
  readonly blockTokens?: number
  readonly maxModelLength?: number
  /** Default 256; null: no limit. */
  readonly maxSequences?: number | null
  /** Default 8192; null: no limit. */
  readonly tokenBudget?: number | null
  readonly prefixCaching?: boolean
  readonly chunkedPrefill?: boolean
  readonly preemption?: 'lifo' | 'fifo'
  /** For engines that compute one prompt after the other, a piece per step. Default: no limit. */
  readonly promptsPerStep?: number | null
  /** Prompt tokens of one request per step. Default: only the limit of the step. */
  readonly promptChunk?: number | null
  readonly waitingOrder?: 'arrival' | 'longest-prefix'
  readonly timing?: SimTimingOptions
  /** Divides compute times; 'instantaneous': they are zero. Transfers are not affected. */
  readonly speedupRatio?: number | 'instantaneous'
  readonly decodeSpeedupRatio?: number
  readonly kvBytesPerToken?: number
  /** In GB/s (1e9 bytes); absent or 0: the transfer takes no time. */
  readonly kvTransferBandwidth?: number
  readonly kvTransferTiming?: 'full-prompt' | 'destination-missing'
  /** Host memory and disk from which evicted blocks can be fetched back. */
  readonly offload?: OffloadOptions
  /** How cautiously `sglang` admits; other engine types do not estimate. */
  readonly sglang?: SglangOptions
  /** Several tokens per step. */
  readonly speculation?: SpeculationOptions
}

export interface SglangOptions {
  /** Prompt tokens of a step; a prompt that is alone may have more. Default 16384. */
  readonly maxPrefillTokens?: number
  /** No request is expected to generate more than this. Default 4096. */
  readonly clipMaxNewTokens?: number
  /** Above 1 admits fewer requests at once, below 1 more. Default 1. */
  readonly scheduleConservativeness?: number
}

const BLOCK_TOKENS = { vllm: 64, sglang: 1, trtllm: 32 } as const
/** Share of the outstanding output at conservativeness 1: falls from 0.7 to 14 % of that within 600 steps. */
const SGLANG_SHARE = { initial: 0.7, least: 0.14, steps: 600 } as const

export function createSchedulerConfig(options: SchedulerOptions = {}): SchedulerConfig {
  const engineType = options.engineType ?? 'vllm'
  const speedup = options.speedupRatio === 'instantaneous' ? Infinity : (options.speedupRatio ?? 1)
  const prefillSpeedup = atLeast('speedupRatio', speedup, 0)
  const decodeRatio = atLeast('decodeSpeedupRatio', options.decodeSpeedupRatio ?? 1, 0)
  const decodeSpeedup = prefillSpeedup * decodeRatio
  const blockTokens = whole('blockTokens', options.blockTokens ?? BLOCK_TOKENS[engineType])
  if (options.sglang !== undefined && engineType !== 'sglang')
    refuse('sglang', engineType, "given with engineType 'sglang'")
  return {
    blockCount: whole('blockCount', options.blockCount ?? 16384),
    blockTokens,
    maxModelLength: orUnlimited('maxModelLength', options.maxModelLength ?? null),
    maxSequences: orUnlimited('maxSequences', options.maxSequences, 256),
    tokenBudget: orUnlimited('tokenBudget', options.tokenBudget, 8192),
    prefixCaching: options.prefixCaching ?? true,
    chunkedPrefill: options.chunkedPrefill ?? true,
    preemption: options.preemption ?? 'lifo',
    reserve:
      engineType === 'sglang'
        ? estimateOf(options.sglang)
        : { kind: engineType === 'trtllm' ? 'whole' : 'none' },
    promptBudget:
      engineType === 'sglang'
        ? whole('sglang.maxPrefillTokens', options.sglang?.maxPrefillTokens ?? 16384)
        : Infinity,
    promptsPerStep: orUnlimited('promptsPerStep', options.promptsPerStep),
    promptChunk: orUnlimited('promptChunk', options.promptChunk),
    waitingOrder: options.waitingOrder ?? 'arrival',
    timing: createSimTiming(options.timing),
    // A ratio of 0 leaves the time unchanged.
    prefillSpeedup: prefillSpeedup > 0 ? prefillSpeedup : 1,
    decodeSpeedup: decodeSpeedup > 0 ? decodeSpeedup : 1,
    transfer: transferOf(options),
    offload: offloadOf(options, blockTokens),
    speculation:
      options.speculation === undefined ? null : createSpeculationConfig(options.speculation),
  }
}

function estimateOf(options: SglangOptions = {}): OutputReserveConfig {
  const conservativeness = options.scheduleConservativeness ?? 1
  atLeast('sglang.scheduleConservativeness', conservativeness, 0)
  const initial = Math.min(1, SGLANG_SHARE.initial * conservativeness)
  const least = initial * SGLANG_SHARE.least
  return {
    kind: 'estimate',
    initial,
    least,
    decay: (initial - least) / SGLANG_SHARE.steps,
    outputMax: whole('sglang.clipMaxNewTokens', options.clipMaxNewTokens ?? 4096),
  }
}

function offloadOf(options: SchedulerOptions, blockTokens: number): OffloadConfig | null {
  const { offload, prefixCaching, kvBytesPerToken = 0 } = options
  if (offload === undefined) return null
  if (prefixCaching === false) refuse('offload', 'prefixCaching off', 'used with prefix caching')
  return createOffloadConfig(offload, kvBytesPerToken * blockTokens)
}

function transferOf(options: SchedulerOptions): SchedulerConfig['transfer'] {
  const bandwidth = atLeast('kvTransferBandwidth', options.kvTransferBandwidth ?? 0, 0)
  const bytes = atLeast('kvBytesPerToken', options.kvBytesPerToken ?? 0, 0)
  if (bandwidth === 0 || bytes === 0) return null
  const onlyMissing = options.kvTransferTiming === 'destination-missing'
  return { msPerToken: bytes / (bandwidth * 1e6), onlyMissing }
}

function refuse(name: string, value: unknown, wanted: string): never {
  throw new BatonError('config.invalid', `${name} must be ${wanted}, got ${String(value)}`, {
    data: { option: name },
  })
}

function whole(name: string, value: number): number {
  return Number.isSafeInteger(value) && value >= 1
    ? value
    : refuse(name, value, 'a whole number ≥ 1')
}

function orUnlimited(name: string, value: number | null | undefined, byDefault?: number): number {
  if (value === undefined && byDefault !== undefined) return byDefault
  return value === null || value === undefined ? Infinity : whole(name, value)
}

function atLeast(name: string, value: number, least: number): number {
  return value >= least ? value : refuse(name, value, `a number ≥ ${least}`)
}
