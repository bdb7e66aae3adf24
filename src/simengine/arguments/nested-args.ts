/**
 * The nested form of the mock engine's arguments (Dynamo 1.6): `engine` for one rank, `dynamo` for the process around
 * it, and launch settings at the top level. Converts it to the flat form.
 *
 * Defaults and settings of other engine types, as spelt out in a normalised configuration, are accepted; settings
 * that would change a result and are not modelled are refused by name.
 */
import { isRecord } from '../../base/index.ts'
import { countOf, numberOf, oneOf, refuse, textOf } from './mock-arg-value.ts'

type Args = Readonly<Record<string, unknown>>

const OF_LAUNCH = [
  'dp_size',
  'startup_time',
  'gpu_memory_utilization',
  'mem_fraction_static',
  'free_gpu_memory_fraction',
]

const OF_ENGINE = [
  'num_gpu_blocks',
  'block_size',
  'max_model_len',
  'max_num_seqs',
  'max_num_batched_tokens',
  'enable_prefix_caching',
  'enable_chunked_prefill',
  'speedup_ratio',
  'decode_speedup_ratio',
  'aic_nextn',
  'aic_nextn_accept_rates',
  'aic_mtp_seed',
  'worker_type',
  'preemption_mode',
  'kv_bytes_per_token',
  'kv_transfer_bandwidth',
  'kv_transfer_timing_mode',
]

const OF_DYNAMO = [
  'enable_local_indexer',
  'bootstrap_port',
  'handoff_session_timeout_ms',
  'reasoning',
  'response_replay_trace_path',
  'zmq_kv_events_port',
  'zmq_replay_port',
  'router_queue_policy',
]

/** Arguments that have no effect at these (default) values. */
const IDLE: Readonly<Record<string, readonly unknown[]>> = {
  tensor_parallel_size: [1],
  cuda_graph_reserved_bytes: [null],
  num_gpu_blocks_is_explicit: [true, false],
  'engine.prefill_schedule_interval': [1],
  'engine.prefill_decode_interval': [0],
  // Events are always available to subscribers, including token ids.
  'engine.emit_kv_events': [true, false],
  'engine.emit_kv_token_ids': [true, false],
  'engine.kv_cache_groups': [null],
  'engine.kv_cache_capacity_bytes': [null],
  'engine.state_cache': [null],
  'engine.prefix_match_unit': [null],
  'engine.g3_offload': [null],
}

/** Default bandwidth of the nested form. */
const HOST_GBPS = 32

/** The flat form is returned unchanged. Throws `config.invalid` with the path of the invalid argument. */
export function flatMockArgs(args: Args): Args {
  if (args['engine'] === undefined && args['dynamo'] === undefined) return args
  const { engine = {}, dynamo = {}, ...launch } = args
  if (!isRecord(engine)) return refuse('engine', engine, 'an object')
  if (!isRecord(dynamo)) return refuse('dynamo', dynamo, 'an object')
  return {
    ...pickArgs(launch, '', OF_LAUNCH),
    ...engineArgs(engine),
    ...pickArgs(dynamo, 'dynamo.', OF_DYNAMO),
  }
}

function engineArgs(engine: Args): Args {
  const {
    backend = 'vllm',
    timing_model: timing = null,
    native_host_offload: offload = null,
    kv_transfer_bytes_per_token: transferBytes = null,
    kv_cache_bytes_per_token: cacheBytes = null,
    sglang = null,
    trtllm = null,
    ...rest
  } = engine
  const engineType = oneOf('engine.backend', backend, ['vllm', 'sglang', 'trtllm'] as const)
  const bytes = transferBytes ?? cacheBytes
  return {
    ...pickArgs(rest, 'engine.', OF_ENGINE),
    engine_type: engineType,
    ...(engineType === 'sglang' && sglang !== null ? { sglang } : {}),
    ...(engineType === 'trtllm' && trtllm !== null ? { trtllm } : {}),
    ...(bytes === null ? {} : { kv_bytes_per_token: bytes }),
    ...timingArgs('engine.timing_model', timing),
    ...offloadArgs('engine.native_host_offload', offload, cacheBytes),
  }
}

function pickArgs(args: Args, prefix: string, names: readonly string[]): Args {
  const flat: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(args)) {
    const path = `${prefix}${name}`
    if (names.includes(name)) flat[name] = value
    else if (!Object.hasOwn(IDLE, path)) refuse(path, value, 'left out: there is no such argument')
    else if (IDLE[path]?.includes(value) !== true) {
      refuse(path, value, `left out, or ${JSON.stringify(IDLE[path]?.[0])}: it is not modelled`)
    }
  }
  return flat
}

function timingArgs(path: string, timing: unknown): Args {
  if (timing === null) return {}
  if (!isRecord(timing)) return refuse(path, timing, 'an object')
  const type = oneOf(`${path}.type`, timing['type'], ['polynomial', 'fixed', 'external'] as const)
  if (type === 'polynomial') return {}
  if (type === 'fixed') {
    const prefill = numberOf(`${path}.prefill_ms`, timing['prefill_ms'], 0)
    const decode = numberOf(`${path}.decode_ms`, timing['decode_ms'], 0)
    return { timing: { kind: 'polynomial', prefill: [prefill], decode: [decode] } }
  }
  const { provider, config } = timing
  if (provider !== 'dynamo_profile') {
    refuse(`${path}.provider`, provider, 'dynamo_profile: others read a database of their vendor')
  }
  const place = isRecord(config) ? config['path'] : undefined
  return { planner_profile_data: textOf(`${path}.config.path`, place) }
}

/** Offloading to host memory, which is tier G2 in the flat form. */
function offloadArgs(path: string, offload: unknown, cacheBytes: unknown): Args {
  if (offload === null) return {}
  if (!isRecord(offload)) return refuse(path, offload, 'an object')
  if (cacheBytes === null) {
    refuse('engine.kv_cache_bytes_per_token', cacheBytes, `given together with ${path}`)
  }
  const { scope, ...others } = offload
  const { num_host_blocks: blocks, d2h_bandwidth_gbps: out, h2d_bandwidth_gbps: back } = offload
  const known = ['num_host_blocks', 'd2h_bandwidth_gbps', 'h2d_bandwidth_gbps']
  const unknownName = Object.keys(others).find(
    (name) => !known.includes(name) && others[name] !== null,
  )
  if (unknownName !== undefined)
    refuse(`${path}.${unknownName}`, others[unknownName], 'left out: it is not modelled')
  if (scope !== undefined) oneOf(`${path}.scope`, scope, ['dp_rank_local'])
  return {
    num_g2_blocks: countOf(`${path}.num_host_blocks`, blocks, 1),
    bandwidth_g1_to_g2_gbps: out ?? HOST_GBPS,
    bandwidth_g2_to_g1_gbps: back ?? HOST_GBPS,
  }
}
