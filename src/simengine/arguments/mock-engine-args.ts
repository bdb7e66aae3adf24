/**
 * Reads the JSON arguments of NVIDIA's mock engine (snake_case, unknown fields refused) as options of this engine.
 *
 * Each argument either has its effect or is refused by name with the reason: it needs a vendor's database, belongs to
 * the router, or is not modelled. Two arguments are Baton's own: `timing`, and the memory sizes to which a fraction
 * applies.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { parseDisaggregationMode } from '../../request/index.ts'
import { countOf, flagOf, numberOf, oneOf, refuse, textOf } from './mock-arg-value.ts'
import {
  BROADCAST_ARGS,
  broadcastOf,
  checkTrtllm,
  engineTypeOf,
  MEMORY_ARGS,
  memoryBlocks,
  OFFLOAD_ARGS,
  offloadOf,
  sglangOf,
  SPECULATION_ARGS,
  speculationOf,
} from './mock-arg-groups.ts'
import { flatMockArgs } from './nested-args.ts'
import { plannerTiming } from './planner-profile.ts'
import { replayScript } from './replay-rows.ts'
import { createSchedulerConfig } from '../scheduler/scheduler-config.ts'
import type { SimEngineOptions } from '../engine/sim-options.ts'
import { timingOf } from './timing-arg.ts'

export type MockEngineOptions = Partial<Omit<SimEngineOptions, 'clock' | 'model'>>

/** Reads files named by arguments, since this room has no file access. Exceptions of the reader pass through. */
export interface MockArgFiles {
  /** The five arrays of a planner's profile. */
  profile(path: string): unknown
  text(path: string): string
}

type Field = (value: unknown, name: string) => MockEngineOptions

const TOGETHER = new Set([
  'engine_type',
  'sglang',
  'trtllm',
  'has_perf_model',
  'planner_profile_data',
  'timing',
  'response_replay_trace_path',
  ...SPECULATION_ARGS,
  ...BROADCAST_ARGS,
  ...OFFLOAD_ARGS,
  ...MEMORY_ARGS,
])

const FIELDS: Readonly<Record<string, Field>> = {
  num_gpu_blocks: (value, name) => (value === null ? {} : { blockCount: countOf(name, value, 1) }),
  block_size: (value, name) => {
    const size = countOf(name, value, 0)
    return size === 0 ? {} : { blockTokens: size }
  },
  max_model_len: (value, name) =>
    value === null ? {} : { maxModelLength: countOf(name, value, 1) },
  max_num_seqs: (value, name) => ({
    maxSequences: value === null ? null : countOf(name, value, 1),
  }),
  max_num_batched_tokens: (value, name) => ({
    tokenBudget: value === null ? null : countOf(name, value, 1),
  }),
  enable_prefix_caching: (value, name) => ({ prefixCaching: flagOf(name, value) }),
  enable_chunked_prefill: (value, name) => ({ chunkedPrefill: flagOf(name, value) }),
  speedup_ratio: (value, name) => ({ speedupRatio: numberOf(name, value, 0) }),
  decode_speedup_ratio: (value, name) => ({ decodeSpeedupRatio: numberOf(name, value, 0) }),
  dp_size: (value, name) => ({ dataParallelSize: countOf(name, value, 1) }),
  startup_time: (value, name) =>
    value === null ? {} : { startupMs: numberOf(name, value, 0) * 1000 },
  worker_type: (value, name) => ({ mode: parseDisaggregationMode(textOf(name, value)) }),
  is_prefill: (value, name) => (flagOf(name, value) ? { mode: 'prefill' } : {}),
  is_decode: (value, name) => (flagOf(name, value) ? { mode: 'decode' } : {}),
  kv_bytes_per_token: (value, name) =>
    value === null ? {} : { kvBytesPerToken: countOf(name, value, 0) },
  kv_transfer_bandwidth: (value, name) =>
    value === null ? {} : { kvTransferBandwidth: numberOf(name, value, 0) },
  kv_transfer_timing_mode: (value, name) => ({
    kvTransferTiming:
      oneOf(name, value, ['full_prompt', 'destination_missing'] as const) === 'full_prompt'
        ? 'full-prompt'
        : 'destination-missing',
  }),
  reasoning: (value, name) => (value === null ? {} : { reasoning: reasoningOf(name, value) }),
  turns: (value, name) => (value === null ? {} : { turns: turnsOf(name, value) }),
  preemption_mode: (value, name) => ({ preemption: oneOf(name, value, ['lifo', 'fifo'] as const) }),
  bootstrap_port: (value, name) =>
    value === null ? {} : { bootstrapPort: countOf(name, value, 0, 65_535) },
  handoff_session_timeout_ms: (value, name) => ({ handOffTimeoutMs: countOf(name, value, 1) }),
  // Every Baton worker keeps an index of its blocks for routers that join late; it cannot be disabled.
  enable_local_indexer: (value, name) => (flagOf(name, value), {}),
}

/** All known names, including those that are refused when set. */
export const MOCK_ENGINE_ARGS: readonly string[] = [...Object.keys(FIELDS), ...TOGETHER]

const REFUSED: readonly (readonly [RegExp, string])[] = [
  [
    /^aic_\w+$/,
    'AI Configurator reads a database of its vendor; give measured tables as planner_profile_data, or timing',
  ],
  [/^router_queue_policy$/, 'it is an option of the router, not of an engine'],
]

/** Throws `config.invalid` with the name of the invalid argument. */
export function mockEngineOptions(given: unknown, files?: MockArgFiles): MockEngineOptions {
  if (!isRecord(given))
    throw new BatonError('config.invalid', 'engine arguments are invalid: expected an object')
  const args = flatMockArgs(given)
  if (args['is_prefill'] === true && args['is_decode'] === true)
    refuse('is_prefill', true, 'false when is_decode is true')
  let options: MockEngineOptions = { engineType: engineTypeOf(args) }
  for (const [name, value] of Object.entries(args)) {
    const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined
    if (field !== undefined) options = { ...options, ...field(value, name) }
    else if (!TOGETHER.has(name)) refuseUnknown(name, value)
  }
  checkTrtllm(args['trtllm'])
  options = withSglang(options, sglangOf(args))
  options = {
    ...options,
    ...speculationOf(args),
    ...broadcastOf(args),
    ...offloadOf(args),
    ...timingsOf(args, files),
    ...replayOf(args, files),
  }
  const { blockTokens } = createSchedulerConfig(options)
  const blockCount = memoryBlocks(args, options.engineType ?? 'vllm', blockTokens)
  return blockCount === null ? options : { ...options, blockCount }
}

function refuseUnknown(name: string, value: unknown): void {
  const reason = REFUSED.find(([pattern]) => pattern.test(name))?.[1]
  if (reason === undefined) refuse(name, value, 'left out: there is no such argument')
  if (value !== null && value !== false) refuse(name, value, `left out: ${reason}`)
}

function withSglang(options: MockEngineOptions, sglang: MockEngineOptions): MockEngineOptions {
  const { tokenBudget: chunk, blockTokens: page = options.blockTokens ?? 1 } = sglang
  if (typeof chunk !== 'number') return { ...options, ...sglang }
  if (chunk % page !== 0)
    refuse('sglang.chunked_prefill_size', chunk, `a multiple of the block size ${page}`)
  const tokenBudget = Math.min(chunk, options.tokenBudget ?? Infinity)
  return { ...options, ...sglang, tokenBudget }
}

function timingsOf(
  args: Readonly<Record<string, unknown>>,
  files: MockArgFiles | undefined,
): MockEngineOptions {
  const { planner_profile_data: profile, timing, has_perf_model: hasModel } = args
  const hasProfile = profile !== undefined && profile !== null
  if (
    hasModel !== undefined &&
    hasModel !== null &&
    flagOf('has_perf_model', hasModel) &&
    !hasProfile
  )
    refuse('has_perf_model', true, 'left out: the model itself is given as planner_profile_data')
  if (timing !== undefined && timing !== null) {
    if (hasProfile) refuse('timing', timing, 'left out: planner_profile_data is given')
    return { timing: timingOf('timing', timing) }
  }
  if (!hasProfile) return {}
  const name = 'planner_profile_data'
  if (typeof profile !== 'string') return { timing: plannerTiming(name, profile) }
  return { timing: plannerTiming(name, filesOf(name, profile, files).profile(profile)) }
}

function replayOf(
  args: Readonly<Record<string, unknown>>,
  files: MockArgFiles | undefined,
): MockEngineOptions {
  const name = 'response_replay_trace_path'
  const path = args[name]
  if (path === undefined || path === null) return {}
  const lines = filesOf(name, path, files).text(textOf(name, path))
  return { scriptFor: replayScript(name, lines) }
}

function filesOf(name: string, value: unknown, files: MockArgFiles | undefined): MockArgFiles {
  return files ?? refuse(name, value, 'left out here: it names a file, and no reader was given')
}

/** An object with these members, all optional. */
function membersOf<const Names extends string>(
  name: string,
  value: unknown,
  names: readonly Names[],
): Partial<Record<Names, unknown>> {
  if (!isRecord(value)) return refuse(name, value, 'an object or null')
  const unknownName = Object.keys(value).find((key) => !names.some((known) => known === key))
  if (unknownName !== undefined)
    refuse(`${name}.${unknownName}`, value[unknownName], 'left out: there is no such argument')
  return value as Partial<Record<Names, unknown>>
}

function reasoningOf(name: string, value: unknown): NonNullable<SimEngineOptions['reasoning']> {
  const members = ['start_thinking_token_id', 'end_thinking_token_id', 'thinking_ratio'] as const
  const { start_thinking_token_id: start, ...given } = membersOf(name, value, members)
  return {
    startTokenId: countOf(`${name}.start_thinking_token_id`, start, 0),
    endTokenId: countOf(`${name}.end_thinking_token_id`, given.end_thinking_token_id, 0),
    ratio: numberOf(`${name}.thinking_ratio`, given.thinking_ratio, 0, 1),
  }
}

function turnsOf(name: string, value: unknown): NonNullable<SimEngineOptions['turns']> {
  const { output_tokens, spread, tool_calls } = membersOf(name, value, [
    'output_tokens',
    'spread',
    'tool_calls',
  ])
  return {
    ...(output_tokens === undefined
      ? {}
      : { outputTokens: numberOf(`${name}.output_tokens`, output_tokens, 1) }),
    ...(spread === undefined ? {} : { spread: numberOf(`${name}.spread`, spread, 0, 10) }),
    ...(tool_calls === undefined
      ? {}
      : { toolCalls: numberOf(`${name}.tool_calls`, tool_calls, 0, 1) }),
  }
}
