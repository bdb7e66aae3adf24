/**
 * Takes the JSON arguments of the mock engine that others use (snake_case, unknown fields refused) as options here.
 *
 * What is not modelled is refused by name when it is set to something: vendor timing databases, speculative decoding,
 * offload tiers, ZeroMQ ports. What only concerns registration is accepted and left to the worker.
 */
import { BatonError } from '../../base/index.ts'
import { parseDisaggregationMode } from '../../request/index.ts'
import type { SimEngineOptions } from './sim-options.ts'

export type MockEngineOptions = Partial<Omit<SimEngineOptions, 'clock' | 'model'>>

type Field = (value: unknown, name: string) => Partial<MockEngineOptions>

const ACCEPTED_UNUSED: Field = () => ({})

const FIELDS: Readonly<Record<string, Field>> = {
  engine_type: (value, name) => ({
    engineType: oneOf(name, value, ['vllm', 'sglang', 'trtllm'] as const),
  }),
  num_gpu_blocks: (value, name) => (value === null ? {} : { blockCount: count(name, value, 1) }),
  block_size: (value, name) => {
    const size = count(name, value, 0)
    return size === 0 ? {} : { blockTokens: size }
  },
  max_model_len: (value, name) => (value === null ? {} : { maxModelLength: count(name, value, 1) }),
  max_num_seqs: (value, name) => ({ maxSequences: value === null ? null : count(name, value, 1) }),
  max_num_batched_tokens: (value, name) => ({
    tokenBudget: value === null ? null : count(name, value, 1),
  }),
  enable_prefix_caching: (value, name) => ({ prefixCaching: flag(name, value) }),
  enable_chunked_prefill: (value, name) => ({ chunkedPrefill: flag(name, value) }),
  speedup_ratio: (value, name) => ({ speedupRatio: number(name, value, 0) }),
  decode_speedup_ratio: (value, name) => ({ decodeSpeedupRatio: number(name, value, 0) }),
  dp_size: (value, name) => ({ dataParallelSize: count(name, value, 1) }),
  startup_time: (value, name) =>
    value === null ? {} : { startupMs: number(name, value, 0) * 1000 },
  worker_type: (value, name) => ({ mode: parseDisaggregationMode(text(name, value)) }),
  is_prefill: (value, name) => (flag(name, value) ? { mode: 'prefill' } : {}),
  is_decode: (value, name) => (flag(name, value) ? { mode: 'decode' } : {}),
  kv_bytes_per_token: (value, name) =>
    value === null ? {} : { kvBytesPerToken: count(name, value, 0) },
  kv_transfer_bandwidth: (value, name) =>
    value === null ? {} : { kvTransferBandwidth: number(name, value, 0) },
  kv_transfer_timing_mode: (value, name) => ({
    kvTransferTiming:
      oneOf(name, value, ['full_prompt', 'destination_missing'] as const) === 'full_prompt'
        ? 'full-prompt'
        : 'destination-missing',
  }),
  reasoning: (value, name) => (value === null ? {} : { reasoning: reasoningOf(name, value) }),
  preemption_mode: (value, name) => ({ preemption: oneOf(name, value, ['lifo', 'fifo'] as const) }),
  sglang: (value, name) => (value === null ? {} : sglangOf(name, value)),
  trtllm: ACCEPTED_UNUSED,
  has_perf_model: ACCEPTED_UNUSED,
  enable_local_indexer: ACCEPTED_UNUSED,
  bootstrap_port: ACCEPTED_UNUSED,
  handoff_session_timeout_ms: ACCEPTED_UNUSED,
  router_queue_policy: ACCEPTED_UNUSED,
}

const NOT_MODELLED =
  /^(aic_\w+|planner_profile_data|num_g[23]_blocks|enable_g4_storage|offload_batch_size|bandwidth_\w+|zmq_\w+|response_replay_trace_path|gpu_memory_utilization|mem_fraction_static|free_gpu_memory_fraction)$/

/** Throws `config.invalid` with the name of the argument that is wrong. */
export function parseMockEngineArgs(json: string): MockEngineOptions {
  let parsed: unknown
  try {
    parsed = JSON.parse(json)
  } catch (cause) {
    throw new BatonError('config.invalid', 'the engine arguments are not JSON', { cause })
  }
  return mockEngineOptions(parsed)
}

export function mockEngineOptions(args: unknown): MockEngineOptions {
  if (!isRecord(args)) throw new BatonError('config.invalid', 'engine arguments are an object')
  if (args.is_prefill === true && args.is_decode === true)
    refuse('is_prefill', true, 'false when is_decode is true')
  let options: MockEngineOptions = {}
  for (const [name, value] of Object.entries(args)) {
    const field = Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined
    if (field !== undefined) options = { ...options, ...field(value, name) }
    else if (!NOT_MODELLED.test(name)) refuse(name, value, 'left out: there is no such argument')
    else if (value !== null && value !== false)
      refuse(name, value, 'left out: the simulated engine does not model it')
  }
  return options
}

function sglangOf(name: string, value: unknown): MockEngineOptions {
  if (!isRecord(value)) return refuse(name, value, 'an object or null')
  let options: MockEngineOptions = { engineType: 'sglang' }
  for (const [key, entry] of Object.entries(value)) {
    const path = `${name}.${key}`
    if (key === 'schedule_policy') {
      const policy = oneOf(path, entry, ['fifo', 'fcfs', 'lpm'] as const)
      options = { ...options, waitingOrder: policy === 'lpm' ? 'longest-prefix' : 'arrival' }
    } else if (key === 'page_size') options = { ...options, blockTokens: count(path, entry, 1) }
    else if (key === 'chunked_prefill_size')
      options = { ...options, tokenBudget: count(path, entry, 1) }
    else if (!/^(max_prefill_tokens|clip_max_new_tokens|schedule_conservativeness)$/.test(key))
      refuse(path, entry, 'left out: there is no such argument')
  }
  return options
}

function reasoningOf(name: string, value: unknown): NonNullable<SimEngineOptions['reasoning']> {
  if (!isRecord(value)) return refuse(name, value, 'an object or null')
  const ratio = number(`${name}.thinking_ratio`, value.thinking_ratio, 0)
  return {
    startTokenId: count(`${name}.start_thinking_token_id`, value.start_thinking_token_id, 0),
    endTokenId: count(`${name}.end_thinking_token_id`, value.end_thinking_token_id, 0),
    ratio: ratio <= 1 ? ratio : refuse(`${name}.thinking_ratio`, ratio, 'between 0 and 1'),
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function refuse(name: string, value: unknown, wanted: string): never {
  throw new BatonError(
    'config.invalid',
    `${name} must be ${wanted}, got ${JSON.stringify(value)}`,
    {
      data: { option: name },
    },
  )
}

function text(name: string, value: unknown): string {
  return typeof value === 'string' ? value : refuse(name, value, 'a text')
}

function oneOf<const T extends string>(name: string, value: unknown, accepted: readonly T[]): T {
  const lower = typeof value === 'string' ? value.toLowerCase() : ''
  const found = accepted.find((word) => word === lower)
  return found ?? refuse(name, value, accepted.join(', '))
}

function flag(name: string, value: unknown): boolean {
  return typeof value === 'boolean' ? value : refuse(name, value, 'true or false')
}

function number(name: string, value: unknown, least: number): number {
  return typeof value === 'number' && Number.isFinite(value) && value >= least
    ? value
    : refuse(name, value, `a number ≥ ${least}`)
}

function count(name: string, value: unknown, least: number): number {
  return Number.isSafeInteger(number(name, value, least))
    ? (value as number)
    : refuse(name, value, 'a whole number')
}
