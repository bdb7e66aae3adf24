import { describe, expect, it } from 'vitest'
import { BatonError, ERROR_CODES, workerIdOf } from '../base/index.ts'
import type { ErrorCode } from '../base/index.ts'
import { card, ScriptedFrontend, storyteller } from '../../test/frontend/scripted-frontend.ts'
import type { Answer, ScriptedOptions, ScriptRun } from '../../test/frontend/scripted-frontend.ts'

const CHAT = JSON.stringify({
  model: 'storyteller',
  messages: [{ role: 'user', content: 'hi' }],
  stream: true,
})

/** Starts a stream whose progress the test controls. */
async function startStream(
  options: ScriptedOptions = {},
  opening: (run: ScriptRun) => void = (run) => void run.routed().says('one'),
): Promise<{
  it_: ScriptedFrontend
  reply: Answer
  run: ScriptRun
  leave: (why?: string) => void
}> {
  const it_ = new ScriptedFrontend({ ...options, script: opening })
  const client = new AbortController()
  const reply = await it_.send('POST', '/v1/chat/completions', {
    body: CHAT,
    signal: client.signal,
  })
  const [run] = it_.runs
  if (run === undefined) throw new Error('nothing was sent')
  return { it_, reply, run, leave: (why?: string) => client.abort(why) }
}

describe('errors before the first token', () => {
  for (const stream of [false, true]) {
    it(`determine the status - stream: ${stream}`, async () => {
      for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
        const it_ = new ScriptedFrontend({
          script: (run) => void run.routed().fails(code),
          limits: { migrationLimit: 0 },
        })
        const reply = await it_.chat({ stream })
        expect([code, reply.status]).toEqual([code, ERROR_CODES[code].httpStatus])
        // The text of an internal error appears only in the log.
        if (code !== 'runtime.internal') {
          expect(reply.json.error).toMatchObject({ message: 'it broke', stage: 'prefill' })
        }
        expect(it_.ends).toHaveLength(1)
        expect(it_.ends[0]).toMatchObject({ status: reply.status, errorCode: code })
        expect(it_.frontend.requestsInFlight).toBe(0)
      }
    })
  }

  it('a prompt longer than the context - 400 with both numbers, no worker is asked', async () => {
    const it_ = new ScriptedFrontend({ engine: { contextLength: 20 } })
    const reply = await it_.chat({
      stream: true,
      messages: [{ role: 'user', content: 'word '.repeat(40) }],
    })
    expect(reply.status).toBe(400)
    expect(reply.json.error.code).toBe('context_length_exceeded')
    expect(reply.json.error.message).toMatch(/20 tokens.*resulted in \d+ tokens/)
    expect(it_.runs).toHaveLength(0)
  })

  it('context - one free token is enough, none is refused', async () => {
    const prompt = storyteller().tokenizer.encode('hi', { special: false })
    const withContext = (contextLength: number) =>
      new ScriptedFrontend({ engine: { contextLength } }).completion({ prompt: [...prompt] })
    expect((await withContext(prompt.length)).status).toBe(400)
    expect((await withContext(prompt.length + 1)).status).toBe(200)
  })

  it('max_tokens - defaults to the rest of the context and never exceeds it', async () => {
    const it_ = new ScriptedFrontend({ engine: { contextLength: 100 } })
    await it_.completion({})
    await it_.completion({ max_tokens: 5 })
    await it_.completion({ max_tokens: 1000 })
    const length = it_.requests[0]?.tokenIds.length ?? 0
    expect(it_.requests.map((request) => request.stop.maxTokens)).toEqual([
      100 - length,
      5,
      100 - length,
    ])
  })

  it('a tokenizer that cannot be loaded - 500, and the next request tries again', async () => {
    let tries = 0
    const it_ = new ScriptedFrontend({
      options: {
        loadText: () =>
          ++tries === 1
            ? Promise.reject(new Error('tokenizer.json is damaged'))
            : Promise.resolve(storyteller()),
      },
    })
    expect((await it_.chat()).json.error).toMatchObject({
      message: 'tokenizer.json is damaged',
      code: 'model.load_failed',
    })
    expect((await it_.chat()).status).toBe(200)
  })

  it('a tokenizer that cannot be loaded for one worker - that of another one is used, each file once', async () => {
    const tried: (string | undefined)[] = []
    const it_ = new ScriptedFrontend({
      options: {
        loadText: ({ engine }) => {
          tried.push(engine.modelPath)
          return engine.modelPath === '/good'
            ? Promise.resolve(storyteller())
            : Promise.reject(new Error(`${engine.modelPath} does not exist`))
        },
      },
      empty: true,
    })
    for (const [i, modelPath] of ['/bad', '/bad', '/good'].entries()) {
      it_.frontend.registry.workerJoined(card({ modelPath }, workerIdOf(i + 1)))
    }
    expect((await it_.chat()).status).toBe(200)
    expect(tried).toEqual(['/bad', '/good'])
  })

  it('an internal error - 500 without its text, reported to the observer; the worker is freed', async () => {
    const faults: unknown[] = []
    const it_ = new ScriptedFrontend({
      options: {
        observer: (event) => {
          if (event.kind === 'faulted') faults.push(event.error)
        },
      },
      limits: { migrationLimit: 0 },
      script: (run) => void run.chunk({ tokenIds: null as never }),
    })
    const reply = await it_.chat()
    expect([reply.status, reply.json.error.code]).toEqual([500, 'runtime.internal'])
    expect(reply.json.error.message).toMatch(/^internal error/)
    it_.script = (run) => void run.says('a').chunk({ tokenIds: null as never })
    const late = await it_.chat({ stream: true })
    expect(late.events.at(-2).error.message).toMatch(/^internal error/)
    expect(it_.runs.map((run) => run.cancels)).toEqual([['kill'], ['kill']])
    expect(faults).toHaveLength(2)
    expect(it_.frontend.requestsInFlight).toBe(0)
  })

  it.each([true, false])(
    'an overloaded router - refuses before the prompt is tokenised (stream: %s)',
    async (stream) => {
      const it_ = new ScriptedFrontend()
      const data = { stage: 'queue', retryAfterMs: 2500 }
      it_.refusal = new BatonError('capacity.pool_exhausted', 'overloaded', { data })
      const reply = await it_.chat({ stream })
      expect([reply.status, reply.headers['retry-after']]).toEqual([529, '3'])
      expect(it_.runs).toHaveLength(0)
      expect(it_.events.map(({ kind }) => kind)).toEqual(['received', 'ended'])
      it_.refusal = null
      expect((await it_.chat({})).status).toBe(200)
    },
  )

  it('log-probabilities of the prompt from a huge position - the worker is at fault, and it is freed', async () => {
    const tokens = [{ tokenId: 4, logprob: -1, top: [] }]
    const it_ = new ScriptedFrontend({
      engine: { features: ['logprobs', 'prompt_logprobs'] },
      script: (run) => {
        // A hole in a list of this length would take minutes to read.
        run.routed().chunk({ tokenIds: [], promptLogprobs: { from: 4_000_000_000, tokens } })
        run.says('one').ends()
      },
    })
    const reply = await it_.completion({ prompt: [3, 4], prompt_logprobs: 0 })
    expect([reply.status, reply.json.error.code]).toEqual([500, 'backend.contract_violation'])
    expect(it_.runs[0]?.cancels).toEqual(['kill'])
  })

  it('token ids outside the vocabulary - have no text, and the first one is reported', async () => {
    const { vocabSize } = storyteller().tokenizer
    const it_ = new ScriptedFrontend({
      script: (run) =>
        void run
          .routed()
          .tokens([vocabSize, vocabSize + 7])
          .says('one')
          .ends(),
    })
    for (let i = 0; i < 2; i++) expect((await it_.completion({ prompt: 'hi' })).status).toBe(200)
    expect(it_.events.filter(({ kind }) => kind === 'backgroundFailed')).toMatchObject([
      { errorCode: 'backend.contract_violation', message: expect.stringContaining(`${vocabSize}`) },
    ])
  })

  it('too many requests in flight - 529, and admitted again after the end of one', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.says('a'),
      limits: { requestsMax: 1 },
    })
    const first = await it_.chat({ stream: true })
    expect((await it_.chat()).status).toBe(529)
    it_.runs[0]?.ends()
    expect(first.ended).toBe(true)
    it_.script = (run) => void run.ends()
    expect((await it_.chat()).status).toBe(200)
  })
})

describe('errors in a stream', () => {
  it('are an event that names the stage, then [DONE]', async () => {
    const { it_, reply, run } = await startStream({ limits: { migrationLimit: 0 } })
    run.fails('transport.disconnected', 'worker gone')
    expect(reply.status).toBe(200)
    expect(reply.ended).toBe(true)
    expect(reply.events.at(-2)).toEqual({
      error: {
        message: 'worker gone',
        type: 'service_unavailable',
        param: null,
        code: 'transport.disconnected',
        stage: 'decode',
      },
    })
    expect(reply.events.at(-1)).toBe('[DONE]')
    expect(it_.ends[0]).toMatchObject({ outcome: 'error', status: 200, stage: 'decode' })
  })

  it.each([
    ['/v1/messages', { messages: [{ role: 'user', content: 'hi' }], max_tokens: 9 }],
    ['/v1/responses', { input: 'hi' }],
  ])('%s - the stage is named in the format of its API', async (path, body) => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed().says('one').fails('backend.unknown', 'broken'),
    })
    const { events } = await it_.post(path, { model: 'storyteller', stream: true, ...body })
    const last = events.findLast((event) => event !== '[DONE]')
    expect(last.error ?? last.response.error).toMatchObject({ message: 'broken', stage: 'decode' })
  })

  it('an error of one choice ends the others', async () => {
    const it_ = new ScriptedFrontend({
      limits: { migrationLimit: 0 },
      script: (run) => void run.says('x'),
    })
    const reply = await it_.chat({ stream: true, n: 2, temperature: 1 })
    it_.runs[1]?.fails('backend.unknown')
    expect(reply.ended).toBe(true)
    expect(it_.runs[0]?.cancels).toEqual(['stop'])
    it_.runs[0]?.says('late')
    expect(reply.text(0)).toBe('x')
  })
})

describe('a client that disconnects', () => {
  it('in mid-stream - the request is killed once, and nothing is written afterwards', async () => {
    const { it_, reply, run, leave } = await startStream()
    const before = reply.sse
    leave()
    leave()
    run.says('more').ends('cancelled')
    expect(run.cancels).toEqual(['kill'])
    expect(reply.sse).toBe(before)
    expect(it_.ends).toHaveLength(1)
    expect(it_.ends[0]).toMatchObject({ outcome: 'cancelled', completionTokens: 1 })
    expect(it_.frontend.requestsInFlight).toBe(0)
  })

  it('a reply that was cut off by the server - the record says why', async () => {
    const { it_, leave } = await startStream()
    leave('it read too slowly')
    expect(it_.ends[0]).toMatchObject({
      outcome: 'cancelled',
      errorMessage: 'it read too slowly',
    })
    const other = await startStream()
    other.leave()
    expect(other.it_.ends[0]).toMatchObject({ errorMessage: 'the client disconnected' })
  })

  it('while it waits for the first token - the request is killed once', async () => {
    const it_ = new ScriptedFrontend({ script: (run) => void run.routed() })
    const client = new AbortController()
    const pending = it_.send('POST', '/v1/chat/completions', { body: CHAT, signal: client.signal })
    await it_.clock.run(1)
    client.abort()
    expect((await pending).status).toBe(499)
    expect(it_.runs[0]?.cancels).toEqual(['kill'])
  })

  it('before anything was sent - nothing is sent', async () => {
    const it_ = new ScriptedFrontend()
    const client = new AbortController()
    client.abort()
    const reply = await it_.send('POST', '/v1/chat/completions', {
      body: CHAT,
      signal: client.signal,
    })
    expect(reply.status).toBe(499)
    expect(it_.runs).toHaveLength(0)
  })

  it('after the end - nothing happens', async () => {
    const { it_, run, leave } = await startStream({}, (run) => void run.says('one').ends())
    leave()
    expect(run.cancels).toEqual([])
    expect(it_.ends).toHaveLength(1)
  })
})

describe('time', () => {
  it('a silent stream - is kept alive by comments, then ended by its deadline', async () => {
    const { it_, reply, run } = await startStream({ limits: { keepAliveMs: 10, silenceMs: 35 } })
    await it_.clock.run(29)
    expect(reply.sse.match(/^: keep-alive$/gm)).toHaveLength(2)
    await it_.clock.run(100)
    expect(reply.events.at(-2).error.code).toBe('request.deadline_exceeded')
    expect(reply.events.at(-2).error.stage).toBe('decode')
    expect(run.cancels).toEqual(['kill'])
  })

  it('a stream with tokens - gets no comments', async () => {
    const { it_, reply, run } = await startStream({ limits: { keepAliveMs: 10 } })
    for (let ms = 5; ms < 60; ms += 5) {
      await it_.clock.run(ms)
      run.says('x')
    }
    expect(reply.sse).not.toContain('keep-alive')
  })

  it('no first token - 504 for a whole reply that names the stage', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed(),
      limits: { firstItemMs: 50 },
    })
    const pending = it_.chat()
    await it_.clock.run(60)
    const reply = await pending
    expect([reply.status, reply.json.error.stage]).toEqual([504, 'prefill'])
  })

  it('a stream that waits long for its first token - starts with a comment', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed(),
      limits: { commitAfterMs: 50, keepAliveMs: 20, firstItemMs: 1000 },
    })
    const pending = it_.chat({ stream: true })
    await it_.clock.run(50)
    const reply = await pending
    expect(reply.sse).toBe(': keep-alive\n\n')
    it_.runs[0]?.says('late').ends()
    expect(reply.text()).toBe('late')
    expect(it_.clock.nextMs).toBeNull()
  })

  it('preprocessing that does not end - 504', async () => {
    const it_ = new ScriptedFrontend({
      options: { loadText: () => new Promise(() => {}) },
      limits: { preprocessMs: 50 },
    })
    const pending = it_.chat()
    await it_.clock.run(50)
    const reply = await pending
    expect([reply.status, reply.json.error.stage]).toEqual([504, 'preprocess'])
  })

  it('every end - leaves no timer behind', async () => {
    const it_ = new ScriptedFrontend()
    await it_.chat()
    await it_.chat({ stream: true })
    await it_.chat({ temperature: 9 })
    expect(it_.clock.nextMs).toBeNull()
  })
})
