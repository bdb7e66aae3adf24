/** Tests `nvext` fields of replies, and events before the chunks. */
import { describe, expect, it } from 'vitest'
import { PREFILL_WORKER, ScriptedFrontend, WORKER } from '../../test/frontend/scripted-frontend.ts'
import type { ScriptRun } from '../../test/frontend/scripted-frontend.ts'

describe('nvext of a reply', () => {
  const extra = (...extra_fields: string[]) => ({ nvext: { extra_fields } })

  it('worker_id - of both legs, as integers with all digits', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) =>
        void run.routed(PREFILL_WORKER, 'prefill').routed(WORKER, 'decode').says('a').ends(),
    })
    const reply = await it_.chat(extra('worker_id'))
    expect(reply.body).toContain(
      `"nvext":{"worker_id":{"prefill_worker_id":${PREFILL_WORKER},"prefill_dp_rank":0,"decode_worker_id":${WORKER},"decode_dp_rank":0}}`,
    )
    const stream = await it_.chat({ ...extra('worker_id'), stream: true })
    expect(stream.sse.match(new RegExp(`"decode_worker_id":${WORKER}`, 'g'))).toHaveLength(2)
  })

  it('timing - at the end only', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.routed().says('a').ends() })
    const { nvext } = (await it_.chat(extra('timing'))).json
    expect(nvext.timing).toMatchObject({ kv_hit_rate: 0.25, ttft_ms: 0, total_time_ms: 0 })
    const { events } = await it_.chat({ ...extra('timing'), stream: true })
    expect(events.map((event) => event.nvext?.timing !== undefined)).toEqual([false, true, false])
  })

  it('token_ids, completion_token_ids, stop_reason, engine_data, routed_experts', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) =>
        void run
          .tokens([5, 6])
          .ends('stop', { stopReason: 9, engineData: { routed_experts: [[1]], more: 2 } }),
    })
    const fields = [
      'token_ids',
      'completion_token_ids',
      'stop_reason',
      'engine_data',
      'routed_experts',
    ]
    const reply = await it_.completion({ prompt: [3, 4], ...extra(...fields, 'unheard_of') })
    expect(reply.json.nvext).toEqual({
      token_ids: [3, 4],
      completion_token_ids: [5, 6],
      stop_reason: 9,
      engine_data: { routed_experts: [[1]], more: 2 },
      routed_experts: [[1]],
    })
    expect((await it_.completion({ prompt: [3, 4] })).json.nvext).toBeUndefined()
  })

  it('completion_token_ids with several choices, prompt_logprobs - are refused by name', async () => {
    const it_ = new ScriptedFrontend()
    expect((await it_.chat({ n: 2, ...extra('completion_token_ids') })).status).toBe(400)
    const reply = await it_.chat(extra('prompt_logprobs'))
    expect(reply.json.error.message).toContain('prompt_logprobs')
  })
})

describe('annotations', () => {
  it('request_id, formatted_prompt, token_ids - are events before the chunks', async () => {
    const it_ = new ScriptedFrontend()
    const annotations = ['request_id', 'formatted_prompt', 'token_ids', 'unheard_of']
    const reply = await it_.chat({ stream: true, nvext: { annotations } })
    const [request] = it_.requests
    const [first, second, third, fourth] = reply.sse.split('\n\n')
    expect(first).toBe(`event: request_id\n: "${request?.requestId}"`)
    expect(second).toContain('event: formatted_prompt\n: "<|im_start|>user\\nhi')
    expect(third).toBe(`event: token_ids\n: ${JSON.stringify(Array.from(request?.tokenIds ?? []))}`)
    expect(fourth).toContain('"role":"assistant"')
  })

  it('query_instance_id - returns the worker and the tokens, nothing is generated', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.routed().ends('stop') })
    const nvext = { annotations: ['query_instance_id:'] }
    const reply = await it_.completion({ prompt: [3, 4], stream: true, nvext })
    expect(it_.requests[0]?.routing.queryOnly).toBe(true)
    expect(reply.sse).toContain(`"decode_worker_id":${WORKER}`)
    expect(reply.events).toHaveLength(2)
    expect(reply.events[0]).toMatchObject({ choices: [], nvext: { token_ids: [3, 4] } })
    const whole = await it_.completion({ prompt: [3, 4], nvext })
    expect(whole.json).toMatchObject({
      choices: [{ index: 0, text: '', finish_reason: 'stop' }],
      nvext: { token_ids: [3, 4] },
    })
  })

  it('x-bypass-remote-prefill - is an event before the chunks when no prefill worker took part', async () => {
    const routed = (bypassesPrefill: boolean) => (run: ScriptRun) => {
      const event = { phase: 'aggregated', workerId: WORKER, dpRank: 0, overlapBlocks: 0 } as const
      run.sink.onPhase?.({
        ...event,
        kind: 'routed',
        promptBlocks: 1,
        queuedMs: 0,
        decisionMs: 0,
        atMs: 0,
        bypassesPrefill,
      })
      run.says('a').ends()
    }
    const stream = async (bypasses: boolean): Promise<string> =>
      (await new ScriptedFrontend({ script: routed(bypasses) }).chat({ stream: true })).sse
    expect(await stream(true)).toMatch(/^event: x-bypass-remote-prefill\n: true\n\ndata: /)
    expect(await stream(false)).not.toContain('bypass')
  })

  it('continuous_usage_stats - usage on every chunk', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.tokens([40, 41]).ends() })
    const reply = await it_.chat({
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    })
    const counts = reply.events.slice(0, -1).map((event) => event.usage?.completion_tokens)
    expect(counts).toEqual([1, 2, 2, 2])
  })
})
