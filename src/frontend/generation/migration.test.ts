import { describe, expect, it } from 'vitest'
import { ERROR_CODES, workerIdOf } from '../../base/index.ts'
import type { ErrorCode } from '../../base/index.ts'
import { ScriptedFrontend, storyteller } from '../../../test/frontend/scripted-frontend.ts'

const A = workerIdOf(1)
const B = workerIdOf(2)

describe('migration', () => {
  it('in mid-stream - the request continues on another worker with the tokens so far', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => {
        if (nth === 0) run.routed(A).says('Once upon').fails('transport.disconnected')
        else run.routed(B).says(' a time').ends('length')
      },
    })
    const reply = await it_.chat({ stream: true, max_tokens: 20, min_tokens: 3, seed: 4 })
    expect(reply.text()).toBe('Once upon a time')
    const [first, second] = it_.requests
    const soFar = Array.from(storyteller().tokenizer.encode('Once upon', { special: false }))
    expect(Array.from(second?.tokenIds ?? [])).toEqual([
      ...Array.from(first?.tokenIds ?? []),
      ...soFar,
    ])
    expect(second).toMatchObject({
      requestId: first?.requestId,
      resumedTokens: soFar.length,
      stop: { maxTokens: 20 - soFar.length, minTokens: 3 },
      sampling: { seed: 4 },
      routing: { excludedWorkerIds: [A] },
    })
    expect(it_.migrations).toEqual([
      expect.objectContaining({ request: 'ongoing_request', failedWorkerId: A, attempt: 1 }),
    ])
    expect(it_.ends[0]?.promptTokens).toBe(first?.tokenIds.length)
  })

  it.each(Object.keys(ERROR_CODES) as ErrorCode[])(
    '%s in mid-stream - continues on another worker exactly when the table says so',
    async (code) => {
      const it_ = new ScriptedFrontend({
        script: (run, nth) => {
          if (nth === 0) run.routed(A).says('Once upon').fails(code)
          else run.routed(B).says(' a time').ends('length')
        },
      })
      const reply = await it_.chat({ stream: true, max_tokens: 20 })
      const continues = ERROR_CODES[code].migratable
      expect(it_.runs).toHaveLength(continues ? 2 : 1)
      if (continues) expect(reply.text()).toBe('Once upon a time')
    },
  )

  it('log-probabilities of the prompt - are those of the prompt only, and are not requested again', async () => {
    const scores = (tokenIds: Uint32Array) => ({
      from: 1,
      tokens: Array.from(tokenIds.subarray(1), (tokenId) => ({ tokenId, logprob: -1, top: [] })),
    })
    const it_ = new ScriptedFrontend({
      engine: { features: ['logprobs', 'prompt_logprobs'] },
      script: (run, nth) => {
        if (run.request.output.promptLogprobs !== undefined)
          run.chunk({ tokenIds: [], promptLogprobs: scores(run.request.tokenIds) })
        if (nth === 0) run.routed(A).says('Once upon').fails('transport.disconnected')
        else run.routed(B).says(' a time').ends('length')
      },
    })
    const { json } = await it_.completion({ prompt: [3, 4, 5], prompt_logprobs: 0, max_tokens: 20 })
    expect(json.choices[0]).toMatchObject({ text: 'Once upon a time' })
    expect(json.choices[0].prompt_logprobs).toHaveLength(3)
    expect(it_.requests[1]?.output).toEqual({})
  })

  it('before the first token - the status is the same as without a failure', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) =>
        void (nth < 3 ? run.fails('transport.cannot_connect') : run.says('ok').ends()),
    })
    expect((await it_.chat()).json.choices[0].message.content).toBe('ok')
    expect(it_.runs).toHaveLength(4)
  })

  it('limit reached - the client reads the last error', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => void run.fails('transport.disconnected', `try ${nth}`),
      limits: { migrationLimit: 2 },
    })
    const reply = await it_.chat()
    expect([reply.status, reply.json.error.message]).toEqual([503, 'try 2'])
    expect(it_.runs).toHaveLength(3)
  })

  const NONE = 'backend.worker_unavailable'

  it('no worker for a while - a request that was running waits, and continues', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => {
        if (nth === 0) run.routed(A).says('Once upon').fails('transport.disconnected')
        else if (nth < 20) run.fails(NONE)
        else run.routed(B).says(' a time').ends('length')
      },
    })
    const reply = await it_.chat({ stream: true })
    expect(reply.text()).toBe('Once upon')
    await it_.clock.run(9000)
    expect(reply.text()).toBe('Once upon a time')
    expect(it_.migrations).toHaveLength(1)
    expect(it_.requests.at(-1)?.routing.excludedWorkerIds).toEqual([])
  })

  it('all workers are full - a request that was running waits, and continues', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => {
        if (nth === 0) run.routed(A).says('Once').fails('transport.disconnected')
        else if (nth < 6) run.fails('capacity.pool_exhausted')
        else run.routed(B).says(' more').ends('length')
      },
    })
    const reply = await it_.chat({ stream: true })
    await it_.clock.run(9000)
    expect(reply.text()).toBe('Once more')
  })

  it('waiting too long - ends with the last error; a wait of 0 ends at once', async () => {
    const script: ConstructorParameters<typeof ScriptedFrontend>[0] = {
      script: (run, nth) =>
        void (nth === 0
          ? run.routed(A).says('Once').fails('transport.disconnected')
          : run.fails(NONE)),
    }
    const patient = new ScriptedFrontend({ ...script, limits: { migrationWaitMs: 1000 } })
    const reply = await patient.chat({ stream: true })
    await patient.clock.run(9000)
    expect(reply.events.at(-2).error.code).toBe(NONE)
    expect(patient.runs.length).toBeGreaterThan(4)
    expect(patient.runs.length).toBeLessThan(9)
    const hasty = new ScriptedFrontend({ ...script, limits: { migrationWaitMs: 0 } })
    await hasty.chat({ stream: true })
    expect(hasty.runs).toHaveLength(2)
  })

  it('the only engine answers with errors after longer than half the wait - it is asked as often as the limit allows', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => {
        // The worker that failed is excluded from the attempt that follows at once.
        if (nth % 2 === 1) run.fails(NONE)
        else if (nth === 6) run.routed(A).says('ok').ends()
        else {
          run.routed(A)
          it_.clock.after(6000, () =>
            run.fails('backend.engine_shutdown', 'failed', { upstreamStatus: 500 }),
          )
        }
      },
      limits: { migrationLimit: 3, migrationWaitMs: 10_000 },
    })
    const reply = it_.chat({ stream: true })
    await it_.clock.run(30_000)
    expect((await reply).text()).toBe('ok')
    expect(it_.migrations).toHaveLength(3)
  })

  it('the client disconnects during the wait - the request ends without further attempts', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) =>
        void (nth === 0
          ? run.routed(A).says('Once').fails('transport.disconnected')
          : run.fails(NONE)),
    })
    const client = new AbortController()
    const body = JSON.stringify({
      model: 'storyteller',
      stream: true,
      messages: [{ role: 'user', content: 'hi' }],
    })
    await it_.send('POST', '/v1/chat/completions', { body, signal: client.signal })
    await it_.clock.run(500)
    const { length } = it_.runs
    client.abort()
    await it_.clock.run(9000)
    expect(it_.runs).toHaveLength(length)
    expect(it_.ends[0]).toMatchObject({ outcome: 'cancelled' })
    expect(it_.frontend.requestsInFlight).toBe(0)
    expect(it_.clock.nextMs).toBeNull()
  })

  it('a request that arrives while there is no worker - is refused at once', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.fails(NONE) })
    expect((await it_.chat()).status).toBe(503)
    expect(it_.runs).toHaveLength(1)
  })

  it('a request that was queued when the last worker was lost - waits, and runs', async () => {
    const it_ = new ScriptedFrontend({
      script: (run, nth) => {
        if (nth === 0) it_.clock.after(2000, () => run.fails(NONE))
        else if (nth < 20) run.fails(nth === 7 ? 'capacity.pool_exhausted' : NONE)
        else run.routed(B).says('ok').ends()
      },
    })
    const reply = it_.chat()
    await it_.clock.run(12_000)
    expect((await reply).json.choices[0].message.content).toBe('ok')
    expect(it_.runs).toHaveLength(21)
  })

  it('many requests wait for a worker - few of them look for one at a time, and all run when one joins', async () => {
    let isThere = true
    const attempts = { count: 0 }
    const it_ = new ScriptedFrontend({
      script: (run) => {
        attempts.count++
        if (isThere) it_.clock.after(100, () => run.fails(NONE))
        else if (it_.clock.nowMs() < 5000) run.fails(NONE)
        else run.routed(B).says('ok').ends()
      },
    })
    const replies = Array.from({ length: 100 }, () => it_.chat())
    await it_.clock.run(99)
    isThere = false
    await it_.clock.run(4900)
    // Five attempts a second each would be 2,500.
    expect(attempts.count).toBeLessThan(100 + 700)
    await it_.clock.run(6200)
    for (const reply of replies) expect((await reply).json.choices[0].message.content).toBe('ok')
  })

  it.each([
    ['is displaced from the queue', 'capacity.pool_exhausted', {}],
    ['is queued while the router closes', NONE, { isClosing: true }],
  ] as const)('a request that %s - is refused at once', async (_, code, data) => {
    const it_ = new ScriptedFrontend({
      script: (run) => void it_.clock.after(2000, () => run.fails(code, 'gone', data)),
    })
    const reply = it_.chat()
    await it_.clock.run(2001)
    expect((await reply).status).toBeGreaterThanOrEqual(503)
    expect(it_.runs).toHaveLength(1)
  })

  it('all tokens were generated and only the end was lost - the reply ends with length', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed(A).says('Once').fails('transport.disconnected'),
    })
    const length = storyteller().tokenizer.encode('Once', { special: false }).length
    const reply = await it_.chat({ max_tokens: length })
    expect(reply.json.choices[0]).toMatchObject({
      message: { content: 'Once' },
      finish_reason: 'length',
    })
    expect(it_.runs).toHaveLength(1)
  })

  for (const [name, fields] of Object.entries({
    'guided output': { response_format: { type: 'json_object' } },
    'a pinned worker': { nvext: { backend_instance_id: 5 } },
    'a pinned decode worker': { nvext: { decode_worker_id: 5 } },
  })) {
    it(`${name} - does not migrate`, async () => {
      const it_ = new ScriptedFrontend({
        script: (run) => void run.fails('transport.disconnected'),
      })
      expect((await it_.chat(fields)).status).toBe(503)
      expect(it_.runs).toHaveLength(1)
    })
  }

  it('errors that another worker would answer in the same way - do not migrate', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.fails('backend.invalid_argument'),
    })
    expect((await it_.chat()).status).toBe(400)
    expect(it_.runs).toHaveLength(1)
  })

  it('no worker available - is reported at once without a second search', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.fails('backend.worker_unavailable'),
    })
    expect((await it_.chat()).status).toBe(503)
    expect(it_.runs).toHaveLength(1)
  })

  it('a client that disconnects after a migration - cancels the request on the current worker', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.routed(A).says('a') })
    const client = new AbortController()
    await it_.send('POST', '/v1/completions', {
      body: JSON.stringify({ prompt: 'hi', stream: true }),
      signal: client.signal,
    })
    it_.runs[0]?.fails('transport.disconnected')
    client.abort()
    expect(it_.runs.map((run) => run.cancels)).toEqual([[], ['kill']])
  })

  it('a sequence above the limit - is not continued', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.says('a').fails('transport.disconnected'),
      limits: { migrationMaxSequenceTokens: 2 },
    })
    expect((await it_.chat()).status).toBe(503)
    expect(it_.runs).toHaveLength(1)
  })
})
