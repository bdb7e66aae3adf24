import { describe, expect, it } from 'vitest'
import { parseMockEngineArgs } from './mock-engine-args.ts'
import { createSchedulerConfig } from './scheduler-config.ts'

describe('parseMockEngineArgs', () => {
  it('takes the known arguments, whatever their case', () => {
    const options = parseMockEngineArgs(
      JSON.stringify({
        engine_type: 'SGLang',
        num_gpu_blocks: 100,
        block_size: 0,
        max_num_seqs: null,
        worker_type: 'Aggregated',
        startup_time: 1.5,
        kv_transfer_timing_mode: 'destination_missing',
        zmq_kv_events_port: null,
        reasoning: { start_thinking_token_id: 1, end_thinking_token_id: 2, thinking_ratio: 0.3 },
        sglang: { schedule_policy: 'lpm', page_size: 8 },
      }),
    )
    expect(options).toMatchObject({
      engineType: 'sglang',
      blockCount: 100,
      blockTokens: 8,
      maxSequences: null,
      mode: 'agg',
      startupMs: 1500,
      kvTransferTiming: 'destination-missing',
      waitingOrder: 'longest-prefix',
    })
    expect(createSchedulerConfig(options).blockTokens).toBe(8)
  })

  it.each([
    ['{', 'not JSON'],
    ['{} x', 'not JSON'],
    ['[]', 'object'],
    ['{"watermark":0.1}', 'watermark'],
    ['{"aic_system":"h200_sxm"}', 'does not model'],
    ['{"num_gpu_blocks":0}', 'num_gpu_blocks'],
    ['{"enable_prefix_caching":null}', 'enable_prefix_caching'],
    ['{"speedup_ratio":-1}', 'speedup_ratio'],
    ['{"engine_type":"llm"}', 'vllm, sglang, trtllm'],
    ['{"is_prefill":true,"is_decode":true}', 'is_prefill'],
    ['{"sglang":{"pages":1}}', 'sglang.pages'],
  ])('refuses %s', (json, word) => {
    expect(() => parseMockEngineArgs(json)).toThrow(word)
  })
})

describe('createSchedulerConfig', () => {
  it('has the block size of the engine type and the usual limits', () => {
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
