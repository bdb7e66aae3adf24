/**
 * Arguments that are meaningful only in groups: offload tiers, memory fractions, and the settings of one engine type.
 *
 * An argument that would have no effect (the bandwidth of a missing tier, a fraction of an unknown memory size) is
 * refused by name: a simulation that silently ignores a setting would mislead.
 */
import { isRecord } from '../../base/index.ts'
import { countOf, flagOf, numberOf, numbersOf, oneOf, refuse } from './mock-arg-value.ts'
import type { OffloadDirection, OffloadOptions } from '../blocks/offload-config.ts'
import type { SchedulerOptions, SglangOptions } from '../scheduler/scheduler-config.ts'
import type { SimEngineOptions } from '../engine/sim-options.ts'

type Args = Readonly<Record<string, unknown>>

const BANDWIDTHS: Readonly<Record<string, OffloadDirection>> = {
  bandwidth_g1_to_g2_gbps: 'deviceToHost',
  bandwidth_g2_to_g1_gbps: 'hostToDevice',
  bandwidth_g2_to_g3_gbps: 'hostToDisk',
  bandwidth_g3_to_g2_gbps: 'diskToHost',
}

export const OFFLOAD_ARGS: readonly string[] = [
  'num_g2_blocks',
  'num_g3_blocks',
  'offload_batch_size',
  'enable_g4_storage',
  'bandwidth_g2_to_g4_gbps',
  'bandwidth_g4_to_g2_gbps',
  ...Object.keys(BANDWIDTHS),
]

/** G1 is the device, G2 host memory, G3 disk, G4 an object store. */
export function offloadOf(args: Args): Pick<SchedulerOptions, 'offload'> {
  refuseObjectStore(args)
  const hostBlocks = blocksOf(args, 'num_g2_blocks')
  const diskBlocks = blocksOf(args, 'num_g3_blocks')
  if (hostBlocks === 0) {
    const idle = OFFLOAD_ARGS.find((name) => isGiven(args, name) && args[name] !== 0)
    return idle === undefined ? {} : refuse(idle, args[idle], 'given together with num_g2_blocks')
  }
  const bandwidth: Partial<Record<OffloadDirection, number>> = {}
  for (const [name, direction] of Object.entries(BANDWIDTHS)) {
    if (args[name] === undefined || args[name] === null) continue
    bandwidth[direction] = numberOf(name, args[name], 0)
    if (name.includes('g3') && diskBlocks === 0)
      refuse(name, args[name], 'given together with num_g3_blocks')
    if (bandwidth[direction] > 0 && !isGiven(args, 'kv_bytes_per_token'))
      refuse(name, args[name], 'given together with kv_bytes_per_token')
  }
  const { offload_batch_size: batch } = args
  const offload: OffloadOptions = {
    hostBlocks,
    diskBlocks,
    bandwidth,
    ...(batch === undefined || batch === null
      ? {}
      : { batchBlocks: countOf('offload_batch_size', batch, 1) }),
  }
  return { offload }
}

function refuseObjectStore(args: Args): void {
  const why =
    'left out: an object store is shared by workers, and one simulated engine is one worker'
  if (
    args['enable_g4_storage'] !== undefined &&
    flagOf('enable_g4_storage', args['enable_g4_storage'])
  )
    refuse('enable_g4_storage', true, why)
  for (const name of ['bandwidth_g2_to_g4_gbps', 'bandwidth_g4_to_g2_gbps'])
    if (isGiven(args, name)) refuse(name, args[name], why)
}

const FRACTIONS = {
  gpu_memory_utilization: 'vllm',
  mem_fraction_static: 'sglang',
  free_gpu_memory_fraction: 'trtllm',
} as const

export const MEMORY_ARGS: readonly string[] = [
  ...Object.keys(FRACTIONS),
  'gpu_memory_bytes',
  'model_weights_bytes',
]

/**
 * Number of blocks that fit into the KV cache's share of the memory. For vLLM and SGLang the fraction is of the whole
 * memory and includes the weights; for TensorRT-LLM it is of what the weights leave.
 */
export function memoryBlocks(args: Args, engineType: string, blockTokens: number): number | null {
  const given = MEMORY_ARGS.filter((name) => isGiven(args, name))
  if (given.length === 0) return null
  const name = given.find((each) => Object.hasOwn(FRACTIONS, each)) as keyof typeof FRACTIONS
  if (name === undefined) return refuse(given[0]!, '…', `given with a fraction of that memory`)
  if (FRACTIONS[name] !== engineType)
    refuse(name, args[name], `left out: it is an argument of ${FRACTIONS[name]}`)
  if (isGiven(args, 'num_gpu_blocks'))
    refuse(name, args[name], 'left out, or num_gpu_blocks: both say how much KV fits')
  const fraction = numberOf(name, args[name], 0, 1)
  for (const needed of ['gpu_memory_bytes', 'model_weights_bytes', 'kv_bytes_per_token'])
    if (!isGiven(args, needed)) refuse(needed, args[needed], `given together with ${name}`)
  const memory = countOf('gpu_memory_bytes', args['gpu_memory_bytes'], 1)
  const weights = countOf('model_weights_bytes', args['model_weights_bytes'], 0)
  const bytes =
    engineType === 'trtllm' ? (memory - weights) * fraction : memory * fraction - weights
  const perToken = countOf('kv_bytes_per_token', args['kv_bytes_per_token'], 1)
  const blocks = Math.floor(bytes / (perToken * blockTokens))
  return blocks >= 1 ? blocks : refuse(name, fraction, 'enough for the weights and one block of KV')
}

export const SPECULATION_ARGS: readonly string[] = [
  'aic_nextn',
  'aic_nextn_accept_rates',
  'aic_mtp_seed',
]

/** The seed has a default, so it alone does not enable speculation. */
export function speculationOf(args: Args): Pick<SchedulerOptions, 'speculation'> {
  const { aic_nextn: drafts, aic_nextn_accept_rates: rates } = args
  const { aic_mtp_seed: givenSeed = 42 } = args
  const seed = countOf('aic_mtp_seed', givenSeed, 0)
  const hasDrafts = isGiven(args, 'aic_nextn')
  if (hasDrafts !== isGiven(args, 'aic_nextn_accept_rates'))
    refuse('aic_nextn_accept_rates', rates, 'given together with aic_nextn')
  if (!hasDrafts) return {}
  const { decode_speedup_ratio: ratio } = args
  if (ratio !== undefined && ratio !== 1) refuse('decode_speedup_ratio', ratio, '1 with aic_nextn')
  const list = typeof rates === 'string' ? rates.split(',').map(Number) : rates
  const count = countOf('aic_nextn', drafts, 1, 5)
  const acceptRates = numbersOf('aic_nextn_accept_rates', list).slice(0, count)
  return { speculation: { drafts: count, acceptRates, seed } }
}

export const BROADCAST_ARGS: readonly string[] = [
  'zmq_kv_events_port',
  'zmq_replay_port',
  'zmq_kv_events_form',
]

export function broadcastOf(
  args: Args,
): Pick<SimEngineOptions, 'kvEventsPort' | 'kvReplayPort' | 'kvEventsForm'> {
  const { zmq_kv_events_port: events, zmq_replay_port: replay, zmq_kv_events_form: form } = args
  const { enable_prefix_caching: prefixCaching } = args
  if (!isGiven(args, 'zmq_kv_events_port')) {
    if (isGiven(args, 'zmq_replay_port'))
      refuse('zmq_replay_port', replay, 'given together with zmq_kv_events_port')
    if (isGiven(args, 'zmq_kv_events_form'))
      refuse('zmq_kv_events_form', form, 'given together with zmq_kv_events_port')
    return {}
  }
  const kvEventsPort = countOf('zmq_kv_events_port', events, 0, 65_535)
  if (prefixCaching === false)
    refuse('zmq_kv_events_port', events, 'left out: enable_prefix_caching is false')
  if (form !== undefined && form !== null && form !== 'array' && form !== 'map')
    refuse('zmq_kv_events_form', form, 'array or map')
  const written = form === 'map' ? { kvEventsPort, kvEventsForm: 'map' as const } : { kvEventsPort }
  if (!isGiven(args, 'zmq_replay_port')) return written
  return { ...written, kvReplayPort: countOf('zmq_replay_port', replay, 0, 65_535) }
}

/** The `sglang` and `trtllm` objects belong to their engine type; one of them alone selects it. */
export function engineTypeOf(args: Args): 'vllm' | 'sglang' | 'trtllm' {
  const parts = (['sglang', 'trtllm'] as const).filter((name) => isGiven(args, name))
  const [part, second] = parts
  if (second !== undefined) refuse(second, args[second], 'left out: sglang is given as well')
  const { engine_type: type } = args
  if (type === undefined) return part ?? 'vllm'
  const chosen = oneOf('engine_type', type, ['vllm', 'sglang', 'trtllm'] as const)
  if (part !== undefined && part !== chosen)
    refuse(part, args[part], `left out: engine_type is ${chosen}`)
  return chosen
}

export function sglangOf(args: Args): SchedulerOptions {
  const { sglang } = args
  if (sglang === undefined || sglang === null) return {}
  if (!isRecord(sglang)) return refuse('sglang', sglang, 'an object or null')
  let [options, estimate]: [SchedulerOptions, SglangOptions] = [{}, {}]
  for (const [key, value] of Object.entries(sglang)) {
    const name = `sglang.${key}`
    if (key === 'schedule_policy') {
      const policy = oneOf(name, value, ['fifo', 'fcfs', 'lpm'] as const)
      options = { ...options, waitingOrder: policy === 'lpm' ? 'longest-prefix' : 'arrival' }
    } else if (key === 'page_size') {
      const { block_size: size } = args
      const page = countOf(name, value, 1)
      if (size !== undefined && size !== 0 && size !== page)
        refuse(name, value, `${JSON.stringify(size)}, as block_size`)
      options = { ...options, blockTokens: page }
    } else if (key === 'chunked_prefill_size')
      options = { ...options, tokenBudget: countOf(name, value, 1) }
    else if (key === 'max_prefill_tokens')
      estimate = { ...estimate, maxPrefillTokens: countOf(name, value, 1) }
    else if (key === 'clip_max_new_tokens')
      estimate = { ...estimate, clipMaxNewTokens: countOf(name, value, 1) }
    else if (key === 'schedule_conservativeness')
      estimate = { ...estimate, scheduleConservativeness: numberOf(name, value, 0) }
    else refuse(name, value, 'left out: there is no such argument')
  }
  return { ...options, sglang: estimate }
}

export function checkTrtllm(trtllm: unknown): void {
  if (trtllm === undefined || trtllm === null) return
  if (!isRecord(trtllm)) refuse('trtllm', trtllm, 'an object or null')
  for (const [key, value] of Object.entries(trtllm as Args)) {
    if (key !== 'capacity_scheduler_policy')
      refuse(`trtllm.${key}`, value, 'left out: there is no such argument')
    oneOf(`trtllm.${key}`, value, ['guaranteed_no_evict'])
  }
}

/** Null and 0 mean that there are none. */
function blocksOf(args: Args, name: string): number {
  return args[name] === undefined || args[name] === null ? 0 : countOf(name, args[name], 0)
}

/** True if the argument is set to a value that has an effect. */
function isGiven(args: Args, name: string): boolean {
  const value = args[name]
  return value !== undefined && value !== null && value !== false
}
