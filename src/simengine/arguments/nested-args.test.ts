import { describe, expect, it } from 'vitest'
import { mockEngineOptions } from './mock-engine-args.ts'

/** What Dynamo 1.6.1 makes of an empty configuration. */
const NORMALISED = {
  engine: {
    backend: 'vllm',
    num_gpu_blocks: 16384,
    block_size: 64,
    max_model_len: null,
    max_num_seqs: 256,
    max_num_batched_tokens: 8192,
    prefill_schedule_interval: 1,
    prefill_decode_interval: 0,
    enable_prefix_caching: true,
    enable_chunked_prefill: true,
    speedup_ratio: 1,
    decode_speedup_ratio: 1,
    aic_nextn: null,
    aic_nextn_accept_rates: null,
    aic_mtp_seed: 42,
    worker_type: 'aggregated',
    preemption_mode: 'lifo',
    emit_kv_events: false,
    emit_kv_token_ids: false,
    kv_transfer_bytes_per_token: null,
    kv_transfer_bandwidth: null,
    kv_transfer_timing_mode: 'full_prompt',
    timing_model: { type: 'polynomial' },
    sglang: { schedule_policy: 'fifo', max_prefill_tokens: 16384 },
    trtllm: { capacity_scheduler_policy: 'guaranteed_no_evict' },
  },
  dp_size: 1,
  tensor_parallel_size: 1,
  startup_time: null,
  num_gpu_blocks_is_explicit: false,
  gpu_memory_utilization: null,
  mem_fraction_static: null,
  free_gpu_memory_fraction: null,
  cuda_graph_reserved_bytes: null,
  dynamo: {
    enable_local_indexer: false,
    bootstrap_port: null,
    handoff_session_timeout_ms: 300000,
    reasoning: null,
    response_replay_trace_path: null,
    zmq_kv_events_port: null,
    zmq_replay_port: null,
    router_queue_policy: null,
  },
}

const engine = (fields: Record<string, unknown>) => mockEngineOptions({ engine: fields })

describe('nested arguments', () => {
  it('a normalised configuration - equals the flat defaults', () => {
    expect(mockEngineOptions(NORMALISED)).toMatchObject({
      engineType: 'vllm',
      blockCount: 16384,
      blockTokens: 64,
      maxSequences: 256,
      tokenBudget: 8192,
      mode: 'agg',
    })
  })

  it('each part - becomes its flat argument', () => {
    const options = mockEngineOptions({
      dp_size: 2,
      startup_time: 1.5,
      engine: {
        backend: 'sglang',
        kv_transfer_bytes_per_token: 100,
        sglang: { schedule_policy: 'lpm' },
      },
      dynamo: { bootstrap_port: 7000, handoff_session_timeout_ms: 5 },
    })
    expect(options).toMatchObject({
      engineType: 'sglang',
      waitingOrder: 'longest-prefix',
      dataParallelSize: 2,
      startupMs: 1500,
      kvBytesPerToken: 100,
      bootstrapPort: 7000,
      handOffTimeoutMs: 5,
    })
  })

  it('timing - constant times, and a profile given by its path', () => {
    const fixed = { type: 'fixed', prefill_ms: 3, decode_ms: 4 }
    expect(engine({ timing_model: fixed }).timing).toEqual({
      kind: 'polynomial',
      prefill: [3],
      decode: [4],
    })
    const profile = { type: 'external', provider: 'dynamo_profile', config: { path: '/p.npz' } }
    const asked: string[] = []
    const files = {
      text: () => '',
      profile: (path: string) => {
        asked.push(path)
        throw new Error('no such file')
      },
    }
    expect(() => mockEngineOptions({ engine: { timing_model: profile } }, files)).toThrow()
    expect(asked).toEqual(['/p.npz'])
  })

  it('host memory - becomes the tier behind the device', () => {
    const native = { num_host_blocks: 5, d2h_bandwidth_gbps: 2 }
    const { offload } = engine({ native_host_offload: native, kv_cache_bytes_per_token: 10 })
    expect(offload).toMatchObject({
      hostBlocks: 5,
      diskBlocks: 0,
      bandwidth: { deviceToHost: 2, hostToDevice: 32 },
    })
  })

  it.each([
    [{ engine: 5 }, 'engine must be an object'],
    [{ engine: { x: 1 } }, 'engine.x must be left out'],
    [{ dynamo: { x: 1 } }, 'dynamo.x must be left out'],
    [{ engine: {}, num_gpu_blocks: 5 }, 'num_gpu_blocks must be left out'],
    [{ engine: { dp_size: 2 } }, 'engine.dp_size must be left out'],
    [{ engine: {}, tensor_parallel_size: 2 }, 'tensor_parallel_size must be left out, or 1'],
    [{ engine: { prefill_schedule_interval: 2 } }, 'engine.prefill_schedule_interval must be'],
    [{ engine: { timing_model: { type: 'magic' } } }, 'engine.timing_model.type must be'],
    [{ engine: { timing_model: { type: 'external', provider: 'ais' } } }, 'provider must be'],
    [{ engine: { native_host_offload: { num_host_blocks: 1 } } }, 'kv_cache_bytes_per_token must'],
    [{ engine: { num_gpu_blocks: 0 } }, 'num_gpu_blocks must be'],
    [{ engine: { constructor: 1 } }, 'engine.constructor must be left out'],
  ])('%j - is refused by name', (args, message) => {
    expect(() => mockEngineOptions(args)).toThrow(message)
  })
})
