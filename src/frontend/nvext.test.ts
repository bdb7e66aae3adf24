import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'

const BIG = '18446744073709551615'

async function routed(nvext: Record<string, unknown>, headers: Record<string, string> = {}) {
  const it_ = new ScriptedFrontend()
  const reply = await it_.chat({ nvext }, headers)
  expect([reply.status, reply.body]).toEqual([200, reply.body])
  const [request] = it_.requests
  if (request === undefined) throw new Error('nothing was sent')
  return { request, routing: request.routing }
}

describe('nvext of a request', () => {
  it('greed_sampling - sets temperature 0', async () => {
    const { request } = await routed({ greed_sampling: true })
    expect(request.sampling.temperature).toBe(0)
  })

  it('use_raw_prompt - applies no template', async () => {
    const { request } = await routed({ use_raw_prompt: true })
    expect(request.tokenIds).toEqual(storyteller().tokenizer.encode('hi', { special: true }))
  })

  it('token_data - the tokens are used unchanged', async () => {
    const { request } = await routed({ token_data: [5, 6, 7] })
    expect(Array.from(request.tokenIds)).toEqual([5, 6, 7])
  })

  it('max_thinking_tokens - is sent to the worker', async () => {
    expect((await routed({ max_thinking_tokens: 9 })).request.stop.maxThinkingTokens).toBe(9)
  })

  it('worker ids and ranks - pin the request, with all 64 bits', async () => {
    const it_ = new ScriptedFrontend()
    const body = `{"messages":[{"role":"user","content":"hi"}],"nvext":{"backend_instance_id":${BIG},
      "prefill_worker_id": 9007199254740993 ,"decode_worker_id":7,"dp_rank":2,"prefill_dp_rank":3}}`
    expect((await it_.post('/v1/chat/completions', body)).status).toBe(200)
    expect(it_.requests[0]?.routing).toMatchObject({
      backendWorkerId: BIG,
      prefillWorkerId: '9007199254740993',
      decodeWorkerId: '7',
      dpRank: 2,
      prefillDpRank: 3,
    })
  })

  it('an id of more than 64 bits, or with a fraction - is refused', async () => {
    const it_ = new ScriptedFrontend()
    for (const id of ['18446744073709551616', '1.5', '-1', 'true']) {
      const body = `{"messages":[{"role":"user","content":"hi"}],"nvext":{"decode_worker_id":${id}}}`
      expect([id, (await it_.post('/v1/chat/completions', body)).status]).toEqual([id, 400])
    }
  })

  it('agent_hints - priority, strict priority, expected length; latency sensitivity replaces a missing priority', async () => {
    const hints = { priority: 5, strict_priority: 2, osl: 77, latency_sensitivity: 1.5 }
    expect((await routed({ agent_hints: hints })).routing).toMatchObject({
      priority: 5,
      strictPriority: 2,
      expectedOutputTokens: 77,
    })
    expect((await routed({ agent_hints: { priority: -3 } })).routing.priority).toBe(-3)
    expect((await routed({ agent_hints: { latency_sensitivity: 1.5 } })).routing.priority).toBe(1.5)
  })

  it('speculative_prefill - the next turn is prefilled when the answer is complete', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.says('Once.').ends() })
    await it_.chat({ nvext: { agent_hints: { speculative_prefill: true }, cache_salt: 's' } })
    await it_.clock.run(1)
    const [first, next] = it_.requests
    const { tokenizer } = storyteller()
    const words = (tokenIds: Uint32Array = new Uint32Array()) =>
      tokenizer.decode(tokenIds, { skipSpecialTokens: false })
    expect(words(next?.tokenIds)).toContain(`${words(first?.tokenIds)}Once.`)
    expect(next).toMatchObject({ stop: { maxTokens: 1 }, routing: { cacheSalt: 's' } })
    expect(it_.ends).toHaveLength(1)
  })

  it('speculative_prefill that fails - is reported to the observer and to no client', async () => {
    const failures: string[] = []
    const it_ = new ScriptedFrontend({
      script: (run, nth) => void (nth === 0 ? run.says('a').ends() : run.fails('backend.unknown')),
      options: {
        observer: (event) => {
          if (event.kind === 'backgroundFailed') failures.push(event.what)
        },
      },
    })
    await it_.chat({ nvext: { agent_hints: { speculative_prefill: true } } })
    await it_.clock.run(1)
    expect(failures).toEqual(['speculative prefill'])
  })

  it('request_timestamp_ms - is sent to the worker', async () => {
    expect((await routed({ request_timestamp_ms: 12.5 })).request.requestTimestampMs).toBe(12.5)
  })

  it('session_control - session, action and timeout with its default', async () => {
    const { routing } = await routed({ session_control: { session_id: 's', action: 'open' } })
    expect(routing).toMatchObject({
      sessionId: 's',
      sessionAction: 'open',
      sessionTimeoutSeconds: 300,
    })
  })

  it('routing_constraints - taints', async () => {
    const { routing } = await routed({
      routing_constraints: { required_taints: ['gpu'], preferred_taints: { near: 2 } },
    })
    expect(routing).toMatchObject({ requiredTaints: ['gpu'], preferredTaints: { near: 2 } })
  })

  it('cache_salt - is part of every hash; it precedes the one at the root; an empty one counts as absent', async () => {
    expect((await routed({ cache_salt: 'a' })).routing.cacheSalt).toBe('a')
    const it_ = new ScriptedFrontend()
    await it_.chat({ cache_salt: 'root', nvext: { cache_salt: 'a' } })
    await it_.chat({ cache_salt: 'root', nvext: { cache_salt: '' } })
    await it_.chat({ nvext: { cache_salt: '' } })
    expect(it_.requests.map((request) => request.routing.cacheSalt)).toEqual([
      'a',
      'root',
      undefined,
    ])
  })

  it('router - overrides of this request, targets to the observer', async () => {
    const it_ = new ScriptedFrontend()
    await it_.chat({
      nvext: {
        router: {
          ttft_target: 100,
          itl_target: 10,
          overlap_score_weight: 0,
          overlap_score_credit: 0.5,
          prefill_load_scale: 2,
          shared_cache_multiplier: 1,
          temperature: 0.5,
          assume_kv_reuse: false,
          track_prefill_tokens: false,
        },
      },
    })
    expect(it_.requests[0]?.routing.overrides).toEqual({
      overlapScoreWeight: 0,
      overlapScoreCredit: 0.5,
      prefillLoadScale: 2,
      sharedCacheMultiplier: 1,
      temperature: 0.5,
      assumeKvReuse: false,
      trackPrefillTokens: false,
    })
    expect(it_.ends[0]).toMatchObject({ ttftTargetMs: 100, itlTargetMs: 10 })
  })

  it('goals - from headers, each before that of nvext; up to their limit', async () => {
    const goals = async (router: object, headers: Record<string, string> = {}) =>
      (await routed({ router }, headers)).routing.goals
    expect(await goals({ ttft_target: 100, itl_target: 10 })).toEqual({ ttftMs: 100, itlMs: 10 })
    const both = { 'x-baton-ttft-target-ms': '250.5', 'x-baton-itl-target-ms': '3600000' }
    expect(await goals({}, both)).toEqual({ ttftMs: 250.5, itlMs: 3_600_000 })
    const itl = { 'x-baton-itl-target-ms': '12' }
    expect(await goals({ ttft_target: 100, itl_target: 10 }, itl)).toEqual({
      ttftMs: 100,
      itlMs: 12,
    })
    expect(await goals({ ttft_target: 3_600_000 })).toEqual({ ttftMs: 3_600_000 })
    expect(await goals({ temperature: 0 })).toBeUndefined()
  })

  it.each(['0', '-1', 'soon', '1e3', '0x10', '3600000.5', '3600001', '1,5', 'Infinity'])(
    'a goal of %s - is refused with the name of its header, and nothing runs',
    async (value) => {
      for (const name of ['x-baton-ttft-target-ms', 'x-baton-itl-target-ms']) {
        const it_ = new ScriptedFrontend()
        const reply = await it_.chat({}, { [name]: value })
        expect([reply.status, reply.json.error.code, reply.json.error.param]).toEqual([
          400,
          'request.invalid_argument',
          name,
        ])
        expect(it_.requests).toHaveLength(0)
      }
      const it_ = new ScriptedFrontend()
      const reply = await it_.chat({ nvext: { router: { ttft_target: 3_600_000.5 } } })
      expect([reply.status, reply.json.error.param]).toEqual([400, 'nvext.router.ttft_target'])
    },
  )

  it('null - counts as absent, also in nested fields, because clients write out unset fields', async () => {
    const unset = {
      prefill_worker_id: null,
      dp_rank: null,
      annotations: null,
      agent_hints: { priority: 3, osl: null },
      session_control: null,
      router: { temperature: null },
    }
    expect((await routed(unset)).routing).toEqual({ priority: 3 })
    const it_ = new ScriptedFrontend()
    const taints = { routing_constraints: { preferred_taints: { a: null } } }
    expect((await it_.chat({ nvext: taints })).status, 'a value is no field').toBe(400)
  })

  it('unknown keys - are refused by name, also in nested objects', async () => {
    const it_ = new ScriptedFrontend()
    for (const [nvext, name] of [
      [{ speed: 1 }, 'nvext.speed'],
      [{ agent_hints: { mood: 1 } }, 'nvext.agent_hints.mood'],
      [{ router: { x: 1 } }, 'nvext.router.x'],
      [{ metadata_upload: { url: 'x' } }, 'nvext.metadata_upload'],
    ] as const) {
      const reply = await it_.chat({ nvext })
      expect([reply.status, reply.json.error.param]).toEqual([400, name])
      expect(reply.json.error.message).toContain(`\`${name}\``)
    }
  })
})

describe('headers', () => {
  it('headers precede the body; the prefixed name precedes the other', async () => {
    const { routing } = await routed(
      { backend_instance_id: 1, dp_rank: 1, agent_hints: { priority: 1, osl: 4 } },
      {
        'x-worker-instance-id': '2',
        'x-dynamo-worker-instance-id': BIG,
        'x-prefill-instance-id': '4',
        'x-dp-rank': '5',
        'x-prefill-dp-rank': '6',
        'x-dynamo-request-priority': '7',
        'x-dynamo-request-strict-priority': '8',
        'x-tenant-id': 'acme',
        'x-dynamo-meta-policy-class': 'batch',
      },
    )
    expect(routing).toMatchObject({
      backendWorkerId: BIG,
      decodeWorkerId: BIG,
      prefillWorkerId: '4',
      dpRank: 5,
      prefillDpRank: 6,
      priority: 7,
      strictPriority: 8,
      expectedOutputTokens: 4,
      cacheSalt: 'acme',
      tenantId: 'acme',
      policyClass: 'batch',
    })
  })

  it.each([
    ['x-worker-instance-id', BIG, { backendWorkerId: BIG, decodeWorkerId: BIG }],
    ['x-dynamo-worker-instance-id', BIG, { backendWorkerId: BIG, decodeWorkerId: BIG }],
    ['x-prefill-instance-id', BIG, { prefillWorkerId: BIG }],
    ['x-dynamo-prefill-instance-id', BIG, { prefillWorkerId: BIG }],
    ['x-dp-rank', '4294967294', { dpRank: 4294967294 }],
    ['x-dynamo-dp-rank', '0', { dpRank: 0 }],
    ['x-data-parallel-rank', '2', { dpRank: 2 }],
    ['x-prefill-dp-rank', '4294967294', { prefillDpRank: 4294967294 }],
    ['x-dynamo-prefill-dp-rank', '0', { prefillDpRank: 0 }],
    ['x-dynamo-request-priority', '-2147483648', { priority: -2147483648 }],
    ['x-dynamo-request-strict-priority', '4294967295', { strictPriority: 4294967295 }],
    ['x-tenant-id', ' acme ', { cacheSalt: 'acme', tenantId: 'acme' }],
    ['x-dynamo-session-id', 's', { sessionId: 's' }],
    ['x-claude-code-session-id', 's', { sessionId: 's' }],
    ['session-id', 's', { sessionId: 's' }],
    ['x-session-id', 's', { sessionId: 's' }],
  ])('%s - alone, and instead of another value in the body', async (name, value, expected) => {
    const body = {
      backend_instance_id: 1,
      decode_worker_id: 1,
      prefill_worker_id: 1,
      dp_rank: 1,
      prefill_dp_rank: 1,
      agent_hints: { priority: 1, strict_priority: 1 },
      cache_salt: 'body',
    }
    const said = (await routed(body)).routing
    expect((await routed(body, { [name]: value })).routing).toEqual({ ...said, ...expected })
    expect((await routed({}, { [name]: value })).routing).toEqual(expected)
    expect((await routed(body, { [name]: ' ' })).routing).toEqual(said)
  })

  it('unparsable headers - are ignored; without headers nvext is unchanged', async () => {
    const body = { backend_instance_id: 1, dp_rank: 3 }
    const { routing } = await routed(body, {
      'x-worker-instance-id': 'abc',
      'x-dp-rank': '-4',
      'x-dynamo-request-priority': '1e9',
    })
    expect(routing).toEqual({ backendWorkerId: '1', dpRank: 3 })
    expect((await routed(body)).routing).toEqual({ backendWorkerId: '1', dpRank: 3 })
  })

  it('rank 4294967295 - unset', async () => {
    const { routing } = await routed(
      { prefill_dp_rank: 2 },
      { 'x-prefill-dp-rank': '4294967295', 'x-data-parallel-rank': '4294967295' },
    )
    expect(routing).toEqual({})
  })

  it("sessions - Baton's own, Claude Code, Codex, OpenCode", async () => {
    const session = async (headers: Record<string, string>) =>
      (await routed({}, headers)).routing.sessionId
    expect(await session({ 'x-dynamo-session-id': ' a ', 'session-id': 'b' })).toBe('a')
    expect(await session({ 'x-claude-code-session-id': 'root' })).toBe('root')
    expect(
      await session({ 'x-claude-code-session-id': 'root', 'x-claude-code-agent-id': 'child' }),
    ).toBe('child')
    expect(await session({ 'session-id': 'codex' })).toBe('codex')
    expect(await session({ 'x-session-id': 'open' })).toBe('open')
    const { routing } = await routed(
      {},
      { 'x-dynamo-session-id': 'a', 'x-dynamo-session-final': 'TRUE' },
    )
    expect(routing.sessionAction).toBe('close')
  })

  it('traceparent - is sent to the worker when it is well formed', async () => {
    const good = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    expect((await routed({}, { traceparent: good })).request.traceparent).toBe(good)
    expect((await routed({}, { traceparent: '00-0-0-0' })).request.traceparent).toBeUndefined()
  })

  it('transfer fields of a client - never reach a worker', async () => {
    const it_ = new ScriptedFrontend()
    const reply = await it_.chat({
      kv_transfer_params: { host: 'evil' },
      bootstrap_host: 'evil',
      bootstrap_port: 1,
      bootstrap_room: 1,
      disaggregated_params: {},
    })
    expect(reply.status).toBe(200)
    expect(JSON.stringify(it_.requests[0])).not.toContain('evil')
    expect(it_.requests[0]).not.toHaveProperty('bootstrap')
  })
})
