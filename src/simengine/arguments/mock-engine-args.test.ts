import { describe, expect, it } from 'vitest'
import type { GenerateRequest } from '../../request/index.ts'
import { mockEngineOptions } from './mock-engine-args.ts'
import type { MockArgFiles } from './mock-engine-args.ts'
import { createSchedulerConfig } from '../scheduler/scheduler-config.ts'
import { createSimTiming } from '../scheduler/sim-timing.ts'

const PROFILE = {
  prefill_isl: [100, 1000],
  prefill_ttft_ms: [10, 100],
  decode_active_kv_tokens: [0, 1000],
  decode_context_length: [0, 500, 1000],
  decode_itl: [
    [2, 4, 6],
    [12, 14, 16],
  ],
}

/** Every argument with its default in the reference implementation. */
const DEFAULTS = {
  engine_type: 'vllm',
  num_gpu_blocks: 16384,
  block_size: 0,
  max_model_len: null,
  max_num_seqs: 256,
  max_num_batched_tokens: 8192,
  enable_prefix_caching: true,
  enable_chunked_prefill: true,
  speedup_ratio: 1,
  decode_speedup_ratio: 1,
  dp_size: 1,
  startup_time: null,
  worker_type: 'aggregated',
  is_prefill: false,
  is_decode: false,
  planner_profile_data: null,
  aic_backend: null,
  aic_system: null,
  aic_systems_path: null,
  aic_backend_version: null,
  aic_model_path: null,
  aic_tp_size: null,
  aic_moe_tp_size: null,
  aic_moe_ep_size: null,
  aic_attention_dp_size: null,
  aic_gemm_dtype: null,
  aic_moe_dtype: null,
  aic_fmha_dtype: null,
  aic_kv_cache_dtype: null,
  aic_comm_dtype: null,
  aic_nextn: null,
  aic_nextn_accept_rates: null,
  aic_mtp_seed: 42,
  gpu_memory_utilization: null,
  mem_fraction_static: null,
  free_gpu_memory_fraction: null,
  enable_local_indexer: false,
  bootstrap_port: null,
  handoff_session_timeout_ms: 300_000,
  kv_bytes_per_token: null,
  kv_transfer_bandwidth: null,
  kv_transfer_timing_mode: 'full_prompt',
  num_g2_blocks: null,
  num_g3_blocks: null,
  enable_g4_storage: false,
  offload_batch_size: null,
  bandwidth_g1_to_g2_gbps: null,
  bandwidth_g2_to_g1_gbps: null,
  bandwidth_g2_to_g3_gbps: null,
  bandwidth_g3_to_g2_gbps: null,
  bandwidth_g2_to_g4_gbps: null,
  bandwidth_g4_to_g2_gbps: null,
  reasoning: null,
  response_replay_trace_path: null,
  zmq_kv_events_port: null,
  zmq_replay_port: null,
  preemption_mode: 'lifo',
  router_queue_policy: null,
  sglang: null,
  trtllm: null,
  has_perf_model: null,
}

describe('mockEngineOptions - accepted arguments', () => {
  it('every argument of the reference at its default - gives the same engine as no arguments', () => {
    const { handOffTimeoutMs, mode, ...rest } = mockEngineOptions(DEFAULTS)
    const { timing, ...config } = createSchedulerConfig(rest)
    const { timing: plain, ...without } = createSchedulerConfig()
    expect([handOffTimeoutMs, mode, config]).toEqual([300_000, 'agg', without])
    const batch = { requests: 1, meanPromptTokens: 100, meanPrefixTokens: 0 }
    expect(timing.prefillMs(batch)).toBe(plain.prefillMs(batch))
  })

  it("turns - off by default; omitted fields have the engine's defaults", () => {
    expect(mockEngineOptions({ turns: null }).turns).toBeUndefined()
    expect(mockEngineOptions({ turns: {} }).turns).toEqual({})
    expect(
      mockEngineOptions({ turns: { output_tokens: 80, spread: 0, tool_calls: 1 } }).turns,
    ).toEqual({ outputTokens: 80, spread: 0, toolCalls: 1 })
  })

  it('known arguments - are accepted in any letter case', () => {
    const options = mockEngineOptions({
      engine_type: 'SGLang',
      num_gpu_blocks: 100,
      block_size: 0,
      max_num_seqs: null,
      worker_type: 'Aggregated',
      startup_time: 1.5,
      kv_transfer_timing_mode: 'destination_missing',
      bootstrap_port: 0,
      handoff_session_timeout_ms: 9,
      zmq_kv_events_port: null,
      reasoning: { start_thinking_token_id: 1, end_thinking_token_id: 2, thinking_ratio: 0.3 },
      sglang: {
        schedule_policy: 'lpm',
        page_size: 8,
        chunked_prefill_size: 4096,
        max_prefill_tokens: 100,
        clip_max_new_tokens: 50,
        schedule_conservativeness: 0.5,
      },
    })
    expect(options).toMatchObject({
      engineType: 'sglang',
      blockCount: 100,
      blockTokens: 8,
      tokenBudget: 4096,
      maxSequences: null,
      mode: 'agg',
      startupMs: 1500,
      kvTransferTiming: 'destination-missing',
      waitingOrder: 'longest-prefix',
      bootstrapPort: 0,
      handOffTimeoutMs: 9,
      sglang: { maxPrefillTokens: 100, clipMaxNewTokens: 50, scheduleConservativeness: 0.5 },
    })
    expect(createSchedulerConfig(options)).toMatchObject({
      blockTokens: 8,
      promptBudget: 100,
      reserve: { kind: 'estimate', initial: 0.35, outputMax: 50 },
    })
  })

  it('an object of one engine type alone - selects that engine type', () => {
    const policy = { capacity_scheduler_policy: 'guaranteed_no_evict' }
    expect(mockEngineOptions({ trtllm: policy }).engineType).toBe('trtllm')
    expect(mockEngineOptions({ engine_type: 'trtllm', trtllm: policy }).engineType).toBe('trtllm')
    expect(mockEngineOptions({ sglang: {} }).engineType).toBe('sglang')
  })

  it('ports for KV events - including the replay port', () => {
    const ports = { zmq_kv_events_port: 5557, zmq_replay_port: 0 }
    expect(mockEngineOptions(ports)).toMatchObject({ kvEventsPort: 5557, kvReplayPort: 0 })
    const { kvReplayPort, kvEventsPort } = mockEngineOptions({ zmq_kv_events_port: 0 })
    expect([kvEventsPort, kvReplayPort]).toEqual([0, undefined])
  })

  it('drafts - with their acceptance rates', () => {
    const args = { aic_nextn: 2, aic_nextn_accept_rates: '0.8,0.3,0,0,0', aic_mtp_seed: 7 }
    expect(mockEngineOptions(args).speculation).toEqual({
      drafts: 2,
      acceptRates: [0.8, 0.3],
      seed: 7,
    })
  })

  it('offload tiers - with their sizes and transfer times', () => {
    const { offload } = createSchedulerConfig(
      mockEngineOptions({
        block_size: 10,
        kv_bytes_per_token: 1e6,
        num_g2_blocks: 5,
        num_g3_blocks: 7,
        offload_batch_size: 2,
        bandwidth_g1_to_g2_gbps: 1,
        bandwidth_g2_to_g1_gbps: 2,
        bandwidth_g2_to_g3_gbps: 4,
        bandwidth_g3_to_g2_gbps: 0,
      }),
    )
    expect(offload).toEqual({
      hostBlocks: 5,
      diskBlocks: 7,
      batchBlocks: 2,
      msPerBlock: { deviceToHost: 10, hostToDevice: 5, hostToDisk: 2.5, diskToHost: 0 },
    })
    expect(mockEngineOptions({ num_g2_blocks: 0, num_g3_blocks: 0 }).offload).toBeUndefined()
  })

  it.each([
    // 80 GB · 0.9 − 16 GB = 56 GB; a block of 64 tokens has 6.4 MB.
    ['vllm', { gpu_memory_utilization: 0.9 }, 8750],
    ['sglang', { mem_fraction_static: 0.9, block_size: 64 }, 8750],
    // (80 GB − 16 GB) · 0.9.
    ['trtllm', { free_gpu_memory_fraction: 0.9, block_size: 64 }, 9000],
  ])('a memory fraction of %s - is so many blocks', (engine_type, fraction, blockCount) => {
    const memory = { gpu_memory_bytes: 80e9, model_weights_bytes: 16e9, kv_bytes_per_token: 1e5 }
    expect(mockEngineOptions({ engine_type, ...memory, ...fraction }).blockCount).toBe(blockCount)
  })

  it("timing - as polynomials, as tables, and as a planner's profile", () => {
    const msOf = (args: object, files?: MockArgFiles): [number, number] => {
      const timing = createSimTiming(mockEngineOptions(args, files).timing)
      return [
        timing.prefillMs({ requests: 1, meanPromptTokens: 550, meanPrefixTokens: 0 }),
        timing.decodeMs({ requests: 2, contextTokens: 500, capacityTokens: 1000 }),
      ]
    }
    expect(msOf({ timing: { kind: 'polynomial', prefill: [1, 2], decode: [3] } })).toEqual([
      1101, 3,
    ])
    // 55 ms between 10 and 100; 500 active tokens at a mean context of 250.
    expect(msOf({ planner_profile_data: PROFILE })).toEqual([55, 8])
    const table = {
      kind: 'table',
      prefill: { x: PROFILE.prefill_isl, y: PROFILE.prefill_ttft_ms },
      decode: {
        rows: PROFILE.decode_active_kv_tokens,
        columns: PROFILE.decode_context_length,
        values: PROFILE.decode_itl,
      },
    }
    expect(msOf({ timing: table })).toEqual([55, 8])
    const files = { profile: (path: string) => ({ 'a.npz': PROFILE })[path], text: () => '' }
    expect(msOf({ planner_profile_data: 'a.npz', has_perf_model: true }, files)).toEqual([55, 8])
  })

  it('replay rows - are the output of requests that name them', () => {
    const lines = [
      '{"output_replay_id":"a","output_length":2,"output_token_ids":[5,6]}',
      '',
      '{"output_replay_id":"b","output_length":1,"output_token_ids":[7]}',
    ].join('\n')
    const files = { profile: () => ({}), text: () => lines }
    const { scriptFor } = mockEngineOptions({ response_replay_trace_path: 'rows.jsonl' }, files)
    const requestOf = (outputReplayId?: string): GenerateRequest =>
      ({ extra: { outputReplayId } }) as unknown as GenerateRequest
    expect(Array.from(scriptFor?.(requestOf('a')) ?? [])).toEqual([5, 6])
    expect(Array.from(scriptFor?.(requestOf('b')) ?? [])).toEqual([7])
    expect(scriptFor?.(requestOf('c'))).toBeUndefined()
    expect(scriptFor?.(requestOf())).toBeUndefined()
  })
})

describe('mockEngineOptions - arguments refused by name', () => {
  it.each([
    ['[]', 'object'],
    ['{"watermark":0.1}', 'watermark'],
    ['{"__proto__":1}', '__proto__'],
    ['{"aic_system":"h200_sxm"}', 'aic_system must be left out: AI Configurator'],
    ['{"aic_nextn":2}', 'aic_nextn_accept_rates must be given together with aic_nextn'],
    ['{"aic_nextn":6,"aic_nextn_accept_rates":"1,1,1,1,1,1"}', 'aic_nextn must be a number from 1'],
    ['{"aic_nextn":2,"aic_nextn_accept_rates":"0.5"}', 'acceptRates must be 2 numbers'],
    ['{"aic_nextn":1,"aic_nextn_accept_rates":"half"}', 'aic_nextn_accept_rates[0]'],
    [
      '{"aic_nextn":1,"aic_nextn_accept_rates":"1","decode_speedup_ratio":2}',
      'decode_speedup_ratio',
    ],
    ['{"aic_nextn_accept_rates":"0.5"}', 'given together with aic_nextn'],
    ['{"aic_mtp_seed":null}', 'aic_mtp_seed'],
    ['{"zmq_kv_events_port":65536}', 'zmq_kv_events_port must be a number from 0 to 65535'],
    ['{"zmq_replay_port":5558}', 'zmq_replay_port must be given together with zmq_kv_events_port'],
    ['{"zmq_kv_events_port":1,"zmq_replay_port":-1}', 'zmq_replay_port must be a number from 0'],
    [
      '{"zmq_kv_events_port":1,"enable_prefix_caching":false}',
      'zmq_kv_events_port must be left out: enable_prefix_caching',
    ],
    ['{"router_queue_policy":"fcfs"}', 'router_queue_policy must be left out: it is an option of'],
    ['{"enable_g4_storage":true}', 'enable_g4_storage must be left out: an object store'],
    ['{"bandwidth_g2_to_g4_gbps":1}', 'bandwidth_g2_to_g4_gbps must be left out'],
    ['{"has_perf_model":true}', 'has_perf_model'],
    ['{"has_perf_model":1}', 'has_perf_model must be true or false'],
    ['{"enable_local_indexer":null}', 'enable_local_indexer'],
    ['{"handoff_session_timeout_ms":0}', 'handoff_session_timeout_ms'],
    ['{"bootstrap_port":65536}', 'bootstrap_port'],
    ['{"num_gpu_blocks":0}', 'num_gpu_blocks'],
    ['{"enable_prefix_caching":null}', 'enable_prefix_caching'],
    ['{"speedup_ratio":-1}', 'speedup_ratio'],
    ['{"engine_type":"llm"}', 'vllm, sglang, trtllm'],
    ['{"engine_type":null}', 'engine_type'],
    ['{"is_prefill":true,"is_decode":true}', 'is_prefill'],
    ['{"reasoning":{"start":1}}', 'reasoning.start'],
    ['{"turns":5}', 'turns must be an object or null'],
    ['{"turns":{"length":5}}', 'turns.length must be left out'],
    ['{"turns":{"output_tokens":0}}', 'turns.output_tokens must be a number ≥ 1'],
    ['{"turns":{"tool_calls":2}}', 'turns.tool_calls must be a number from 0 to 1'],
    ['{"sglang":{"pages":1}}', 'sglang.pages'],
    ['{"sglang":{"page_size":8},"block_size":4}', 'sglang.page_size must be 4'],
    ['{"sglang":{"page_size":8,"chunked_prefill_size":12}}', 'a multiple of the block size 8'],
    ['{"sglang":{},"engine_type":"vllm"}', 'sglang must be left out: engine_type is vllm'],
    ['{"sglang":{},"trtllm":{}}', 'trtllm must be left out'],
    ['{"trtllm":{"capacity_scheduler_policy":"max_utilization"}}', 'guaranteed_no_evict'],
    ['{"trtllm":{"policy":1}}', 'trtllm.policy'],
    ['{"num_g3_blocks":5}', 'num_g3_blocks must be given together with num_g2_blocks'],
    ['{"offload_batch_size":5}', 'offload_batch_size must be given together with num_g2_blocks'],
    ['{"num_g2_blocks":5,"bandwidth_g1_to_g2_gbps":1}', 'together with kv_bytes_per_token'],
    ['{"num_g2_blocks":5,"bandwidth_g2_to_g3_gbps":1}', 'together with num_g3_blocks'],
    ['{"num_g2_blocks":5,"enable_prefix_caching":false}', 'offload'],
    ['{"gpu_memory_utilization":0.9}', 'gpu_memory_bytes must be given together with'],
    ['{"gpu_memory_utilization":1.1}', 'from 0 to 1'],
    ['{"gpu_memory_utilization":0.9,"num_gpu_blocks":5}', 'num_gpu_blocks'],
    ['{"mem_fraction_static":0.9}', 'an argument of sglang'],
    ['{"gpu_memory_bytes":8e10}', 'gpu_memory_bytes'],
    [
      '{"gpu_memory_utilization":0.1,"gpu_memory_bytes":8e10,"model_weights_bytes":16e9,"kv_bytes_per_token":1}',
      'enough for the weights',
    ],
    ['{"planner_profile_data":"a.npz"}', 'planner_profile_data'],
    ['{"planner_profile_data":{"prefill_isl":[1]}}', 'prefill_ttft_ms'],
    ['{"planner_profile_data":{"x":[1]}}', 'planner_profile_data.x'],
    [JSON.stringify({ planner_profile_data: { ...PROFILE, decode_itl: [[1]] } }), 'decode_itl'],
    [JSON.stringify({ planner_profile_data: PROFILE, timing: {} }), 'timing'],
    ['{"timing":{"kind":"spline"}}', 'timing.kind'],
    ['{"timing":{"kind":"polynomial","prefil":[1]}}', 'timing.prefil'],
    ['{"timing":{"kind":"table","prefill":{"x":[1]}}}', 'timing'],
    ['{"response_replay_trace_path":"rows.jsonl"}', 'response_replay_trace_path'],
  ])('%s', (json, word) => {
    expect(() => mockEngineOptions(JSON.parse(json))).toThrow(word)
  })

  it.each([
    ['no', 'line 1'],
    ['{"output_length":1,"output_token_ids":[1]}', 'line 1: output_replay_id'],
    ['{"output_replay_id":"a","output_length":2,"output_token_ids":[1]}', 'line 1: output_length'],
    ['{"output_replay_id":"a","output_length":1,"output_token_ids":[-1]}', 'output_token_ids[0]'],
  ])('replay row %s', (line, word) => {
    const files = { profile: () => ({}), text: () => line }
    const args = { response_replay_trace_path: 'rows.jsonl' }
    expect(() => mockEngineOptions(args, files)).toThrow(word)
  })

  it('two replay rows with the same key', () => {
    const line = '{"output_replay_id":"a","output_length":1,"output_token_ids":[1]}'
    const files = { profile: () => ({}), text: () => `${line}\n${line}` }
    const args = { response_replay_trace_path: 'rows.jsonl' }
    expect(() => mockEngineOptions(args, files)).toThrow('line 2: output_replay_id')
  })
})

describe('createSchedulerConfig', () => {
  it('has the block size of the engine type and the default limits', () => {
    const sizes = (['vllm', 'sglang', 'trtllm'] as const).map(
      (engineType) => createSchedulerConfig({ engineType }).blockTokens,
    )
    expect(sizes).toEqual([64, 1, 32])
    expect(createSchedulerConfig()).toMatchObject({
      blockCount: 16384,
      maxSequences: 256,
      tokenBudget: 8192,
      prefillSpeedup: 1,
    })
    expect(createSchedulerConfig({ tokenBudget: null }).tokenBudget).toBe(Infinity)
    expect(createSchedulerConfig({ speedupRatio: 0 }).prefillSpeedup).toBe(1)
    expect(() => createSchedulerConfig({ blockCount: 0 })).toThrow('blockCount')
  })
})
