import { describe, expect, it } from 'vitest'
import { SmallFleet } from './frontend/small-fleet.ts'
import { storyteller } from './frontend/scripted-frontend.ts'
import type { Answer } from './frontend/scripted-frontend.ts'

/** Two workers of each role; a request that names none may run on any. */
const SPLIT = [
  { id: 11, mode: 'prefill' },
  { id: 12, mode: 'prefill' },
  { id: 21, mode: 'decode' },
  { id: 22, mode: 'decode' },
] as const
const PAIR = [{ id: 1 }, { id: 2 }] as const
const LONG = 'Ben has a green lamp and lives in the tower. '.repeat(40)

const user = (content: string) => [{ role: 'user', content }]
const where = { extra_fields: ['worker_id'] }
const ranOn = (answer: Answer) => answer.json.nvext.worker_id
const cached = (answer: Answer): number =>
  answer.json.usage.prompt_tokens_details?.cached_tokens ?? 0

/**
 * Everything after the frontend's HTTP server is real: the effect of a field is observed at the engine or in the
 * reply.
 */
describe('nvext in the whole system', () => {
  it('greed_sampling - the engine decodes greedily', async () => {
    const fleet = await SmallFleet.start(PAIR)
    await fleet.ask({ temperature: 1.5, nvext: { greed_sampling: true } })
    await fleet.ask({ temperature: 1.5, nvext: { greed_sampling: false } })
    expect(fleet.served.map(({ request }) => request.sampling.temperature)).toEqual([0, 1.5])
  })

  it('use_raw_prompt and token_data - set what the engine computes', async () => {
    const fleet = await SmallFleet.start(PAIR)
    const messages = [...user('one '), ...user('two')]
    const raw = await fleet.ask({ messages, nvext: { use_raw_prompt: true } })
    const given = await fleet.ask({ messages, nvext: { token_data: [5, 6, 7] } })
    const templated = await fleet.ask({ messages })
    const plain = storyteller().tokenizer.encode('one two', { special: true })
    expect(fleet.served[0]?.request.tokenIds).toEqual(plain)
    expect(fleet.served[1]?.request.tokenIds).toEqual(Uint32Array.of(5, 6, 7))
    expect(raw.json.usage.prompt_tokens).toBe(plain.length)
    expect(given.json.usage.prompt_tokens).toBe(3)
    expect(templated.json.usage.prompt_tokens).toBeGreaterThan(plain.length)
  })

  it('backend_instance_id - both legs run on the named worker', async () => {
    const fleet = await SmallFleet.start(SPLIT)
    for (const id of [21, 22, 21]) {
      const answer = await fleet.ask({ nvext: { backend_instance_id: id, ...where } })
      expect(ranOn(answer)).toMatchObject({ prefill_worker_id: id, decode_worker_id: id })
    }
    expect(fleet.served.map(({ worker }) => worker)).toEqual(['21', '22', '21'])
  })

  it('prefill_worker_id and decode_worker_id - each leg runs on the named worker, and the reply reports it', async () => {
    const fleet = await SmallFleet.start(SPLIT)
    for (const [prefill, decode] of [
      [12, 22],
      [11, 22],
      [12, 21],
    ] as const) {
      const nvext = { prefill_worker_id: prefill, decode_worker_id: decode, ...where }
      expect(ranOn(await fleet.ask({ nvext }))).toMatchObject({
        prefill_worker_id: prefill,
        decode_worker_id: decode,
      })
      expect(fleet.served.splice(0).map(({ worker }) => Number(worker))).toEqual([prefill, decode])
    }
    const lost = await fleet.ask({ nvext: { decode_worker_id: 99 } })
    expect([lost.status, lost.json.error.message]).toEqual([400, expect.stringContaining('99')])
  })

  it('dp_rank and prefill_dp_rank - set the rank of each leg', async () => {
    const sim = { dataParallelSize: 3 }
    const fleet = await SmallFleet.start([
      { id: 11, mode: 'prefill', sim },
      { id: 21, mode: 'decode', sim },
    ])
    const pins = { prefill_worker_id: 11, decode_worker_id: 21, ...where }
    for (const [prefill, decode] of [
      [2, 1],
      [0, 2],
    ]) {
      const nvext = { ...pins, prefill_dp_rank: prefill, dp_rank: decode }
      expect(ranOn(await fleet.ask({ nvext }))).toMatchObject({
        prefill_dp_rank: prefill,
        decode_dp_rank: decode,
      })
    }
    const refused = await fleet.ask({ nvext: { ...pins, prefill_dp_rank: 3, dp_rank: 0 } })
    expect([refused.status, refused.json.error.message]).toEqual([
      400,
      expect.stringContaining('rank 3'),
    ])
  })

  it.each([
    ['priority', { priority: 60 }],
    ['strict_priority', { strict_priority: 1 }],
    ['latency_sensitivity', { latency_sensitivity: 60 }],
  ])(
    'agent_hints.%s - goes first among the requests that wait for a worker',
    async (_name, hints) => {
      const fleet = await SmallFleet.start([{ id: 1 }], {
        policyClasses: [{ name: 'default', prefillBusyThreshold: 0 }],
      })
      const send = (name: string, agent_hints?: object) =>
        fleet.send(
          {
            messages: user(LONG),
            ...(agent_hints === undefined ? {} : { nvext: { agent_hints } }),
          },
          { 'x-request-id': name },
        )
      const all = Promise.all([send('first'), send('second'), send('third', hints)])
      await fleet.clock.runUntil(all)
      expect(fleet.served.map(({ request }) => request.requestId)).toEqual([
        'first',
        'third',
        'second',
      ])
    },
  )

  it("extra_fields timing - reports how many requests waited in the router's queue", async () => {
    const fleet = await SmallFleet.start([{ id: 1 }], {
      policyClasses: [{ name: 'default', prefillBusyThreshold: 0 }],
    })
    const send = () => fleet.send({ messages: user(LONG), nvext: { extra_fields: ['timing'] } })
    const answers = Promise.all([send(), send(), send(), send()])
    await fleet.clock.runUntil(answers)
    const depths = (await answers).map(({ json }) => json.nvext.timing.router_queue_depth)
    expect(depths).toEqual([0, 2, 1, 0])
  })

  it('agent_hints.priority - reaches the engine unchanged, also if negative', async () => {
    const fleet = await SmallFleet.start([{ id: 1, sim: { maxSequences: 1 } }])
    const priorities = [0, -5, 5]
    const sent = priorities.map((priority) =>
      fleet.send({ nvext: { agent_hints: { priority } } }, { 'x-request-id': `p${priority}` }),
    )
    await fleet.clock.runUntil(Promise.all(sent))
    expect(fleet.served.map(({ request }) => request.routing.priority)).toEqual(priorities)
    expect(fleet.ends.map((end) => end.requestId)).toEqual(['p5', 'p0', 'p-5'])
  })

  it('agent_hints.osl - the blocks of the output are expected to be free soon', async () => {
    const blocksAfter = async (osl?: number) => {
      const fleet = await SmallFleet.start([{ id: 1 }], { trackOutputBlocks: true })
      const hints = osl === undefined ? {} : { nvext: { agent_hints: { osl } } }
      const pending = fleet.send({ messages: user(LONG), max_tokens: 1000, ...hints })
      await fleet.clock.run(2000)
      const blocks = fleet.router.status().decode.ranks[0]?.activeDecodeBlocks ?? 0
      await fleet.clock.runUntil(pending)
      return blocks
    }
    expect(await blocksAfter(100)).toBeLessThan(await blocksAfter())
  })

  it('agent_hints.speculative_prefill - the next turn finds its prefix cached', async () => {
    const secondTurn = async (speculative_prefill: boolean) => {
      const fleet = await SmallFleet.start([SPLIT[0], SPLIT[2]])
      const nvext = { agent_hints: { speculative_prefill } }
      const first = await fleet.ask({ messages: user('hi'), max_tokens: 200, nvext })
      await fleet.clock.run()
      const { content } = first.json.choices[0].message
      const messages = [...user('hi'), { role: 'assistant', content }, ...user('and then?')]
      return cached(await fleet.ask({ messages }))
    }
    expect(await secondTurn(true)).toBeGreaterThan((await secondTurn(false)) + 100)
  })

  it('request_timestamp_ms - is passed to the engine and reported in the request record', async () => {
    const fleet = await SmallFleet.start(PAIR)
    await fleet.ask({ nvext: { request_timestamp_ms: 12.5 } })
    expect(fleet.served[0]?.request.requestTimestampMs).toBe(12.5)
    expect(fleet.ends[0]?.requestTimestampMs).toBe(12.5)
  })

  it('session_control - open binds, close unbinds, the timeout ends it, bind moves it', async () => {
    const fleet = await SmallFleet.start(PAIR, { mode: 'round-robin' })
    const ask = async (control?: object, more: object = {}) => {
      const nvext = {
        ...where,
        ...more,
        ...(control === undefined ? {} : { session_control: { session_id: 's', ...control } }),
      }
      return ranOn(await fleet.ask({ nvext })).decode_worker_id
    }
    expect([await ask(), await ask(), await ask()]).toEqual([1, 2, 1])
    const bound = await ask({ action: 'open', timeout: 10 })
    const others = [await ask(), await ask(), await ask()]
    expect(new Set(others).size).toBe(2)
    expect([await ask({ action: 'open' }), await ask({ action: 'open' })]).toEqual([bound, bound])
    const other = 3 - bound
    await ask({ action: 'bind' }, { backend_instance_id: other })
    expect([await ask({ action: 'open' }), await ask({ action: 'open' })]).toEqual([other, other])
    expect(fleet.router.status().sessions).toBe(1)
    await ask({ action: 'close' })
    expect(fleet.router.status().sessions).toBe(0)
    const last = await ask({ action: 'open', timeout: 10 })
    const turnOfTheOther = async () => {
      while ((await ask()) !== last);
    }
    await turnOfTheOther()
    await fleet.clock.run(fleet.clock.nowMs() + 9_000)
    expect(await ask({ action: 'open', timeout: 10 })).toBe(last)
    await turnOfTheOther()
    await fleet.clock.run(fleet.clock.nowMs() + 10_001)
    expect(await ask({ action: 'open' })).not.toBe(last)
  })

  it.each(['x-dynamo-session-id', 'x-claude-code-session-id', 'session-id', 'x-session-id'])(
    '%s - requests of a session stay on one worker',
    async (name) => {
      const fleet = await SmallFleet.start(PAIR, {
        mode: 'round-robin',
        session: { ttlSeconds: 60 },
      })
      const ask = async (headers: Record<string, string>) =>
        ranOn(await fleet.ask({ nvext: where }, headers)).decode_worker_id
      const [bound, free] = [new Set<number>(), new Set<number>()]
      for (let i = 0; i < 3; i++) {
        bound.add(await ask({ [name]: 'talk' }))
        free.add(await ask({}))
        free.add(await ask({}))
      }
      expect([bound.size, free.size]).toEqual([1, 2])
    },
  )

  it('routing_constraints - required taints exclude workers, preferred ones only rank them', async () => {
    const fleet = await SmallFleet.start([{ id: 1 }, { id: 2, taints: ['gpu', 'near'] }])
    const ask = (routing_constraints: object, content = 'hi') =>
      fleet.ask({ messages: user(content), nvext: { routing_constraints, ...where } })
    for (let i = 0; i < 4; i++) {
      const answer = await ask({ required_taints: ['gpu'] }, `required ${i}`)
      expect(ranOn(answer).decode_worker_id).toBe(2)
    }
    const wish = { preferred_taints: { near: 5 } }
    expect(ranOn(await ask(wish, LONG)).decode_worker_id).toBe(2)
    const avoided = { preferred_taints: { near: -5 } }
    expect(ranOn(await ask(avoided, `another ${LONG}`)).decode_worker_id).toBe(1)
    expect((await ask({ required_taints: ['tpu'] })).status).toBe(503)
  })

  it('cache_salt - requests with another salt do not share cached blocks', async () => {
    const fleet = await SmallFleet.start([{ id: 1 }])
    const ask = async (nvext: object, fields: object = {}) =>
      cached(await fleet.ask({ messages: user(LONG), nvext, ...fields }))
    expect(await ask({ cache_salt: 'a' })).toBe(0)
    expect(await ask({ cache_salt: 'a' })).toBeGreaterThan(100)
    expect(await ask({ cache_salt: 'b' })).toBe(0)
    expect(await ask({})).toBe(0)
    expect(await ask({}, { cache_salt: 'b' })).toBeGreaterThan(100)
  })

  it('router - overrides one decision and reports the targets', async () => {
    const fleet = await SmallFleet.start(PAIR)
    const first = await fleet.ask({ messages: user(LONG), nvext: where })
    const holder = ranOn(first).decode_worker_id
    const decide = async (router: object) => {
      const answer = await fleet.ask({ messages: user(LONG), nvext: { router, ...where } })
      const id = answer.headers['x-request-id'] ?? ''
      const record = fleet.router.explain(id)?.[0]
      if (record?.outcome.kind !== 'routed') throw new Error('not routed')
      return { ...record.outcome, candidates: record.candidates }
    }
    const plain = await decide({})
    expect([plain.workerId, plain.reason]).toEqual([String(holder), 'lowest cost'])
    expect((await decide({ temperature: 0.5 })).reason).toBe('drawn at temperature')
    const costs = async (router: object) =>
      (await decide(router)).candidates.map(({ cost }) => cost)
    expect(await costs({})).not.toEqual(await costs({ overlap_score_weight: 0 }))
    await decide({ ttft_target: 100, itl_target: 10 })
    expect(fleet.ends.at(-1)).toMatchObject({ ttftTargetMs: 100, itlTargetMs: 10 })
  })

  it('router.track_prefill_tokens and .assume_kv_reuse - change the reserved load of a running request', async () => {
    const loadOf = async (router: object) => {
      const fleet = await SmallFleet.start([{ id: 1 }])
      await fleet.ask({ messages: user(LONG) })
      const pending = [1, 2].map(() => fleet.send({ messages: user(LONG), nvext: { router } }))
      await fleet.clock.settle()
      const [rank] = fleet.router.status().decode.ranks
      await fleet.clock.runUntil(Promise.all(pending))
      return { tokens: rank?.activePrefillTokens ?? 0, blocks: rank?.activeDecodeBlocks ?? 0 }
    }
    const plain = await loadOf({})
    expect(plain.tokens).toBeGreaterThan(0)
    expect((await loadOf({ track_prefill_tokens: false })).tokens).toBe(0)
    expect((await loadOf({ assume_kv_reuse: false })).blocks).toBeGreaterThan(plain.blocks)
  })
})

describe('nvext in the reply of the whole system', () => {
  it('each field - is present only if extra_fields lists it, with the right value', async () => {
    const fleet = await SmallFleet.start([SPLIT[0], SPLIT[2]])
    const show = async (field: string, fields: object = {}) => {
      const answer = await fleet.ask({ ...fields, nvext: { extra_fields: [field] } })
      const { nvext } = answer.json
      expect(Object.keys(nvext)).toEqual([field])
      return nvext[field]
    }
    expect((await fleet.ask({})).json.nvext).toBeUndefined()
    expect(await show('worker_id')).toEqual({
      prefill_worker_id: 11,
      prefill_dp_rank: 0,
      decode_worker_id: 21,
      decode_dp_rank: 0,
    })
    expect(await show('token_ids')).toEqual([...(fleet.served[0]?.request.tokenIds ?? [])])
    expect(await show('completion_token_ids')).toHaveLength(4)
    const stopIds = Array.from({ length: 32 }, (_, i) => 500 + i)
    const stop = { max_tokens: 100, stop_token_ids: stopIds }
    expect(stopIds).toContain(await show('stop_reason', stop))
    const timing = await show('timing')
    expect(timing.total_time_ms).toBeGreaterThan(timing.ttft_ms)
    expect(timing.ttft_ms).toBeGreaterThan(0)
    expect(timing).toMatchObject({
      prefill_wait_time_ms: 0,
      kv_hit_rate: expect.any(Number),
      avg_itl_ms: expect.any(Number),
    })
    await show('timing')
  })
})
