/** A worker reports `request.cancelled`, but the client is there and waits for the end of its reply. */
import { describe, expect, it } from 'vitest'
import { ScriptedFrontend } from '../../test/frontend/scripted-frontend.ts'
import { until } from '../../test/until.ts'
import { VirtualClock } from '../sim/index.ts'
import { MemoryStateStore } from './state/state-store.ts'

const MESSAGES = [{ role: 'user', content: 'hi' }]

describe('a request that a worker cancels unasked', () => {
  it.each([
    ['/v1/completions', { prompt: 'hi' }],
    ['/v1/chat/completions', { messages: MESSAGES }],
    ['/v1/messages', { messages: MESSAGES, max_tokens: 9 }],
    ['/v1/responses', { input: 'hi' }],
  ])('%s, after a token - the stream ends, with an error event', async (path, body) => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed().says('one').fails('request.cancelled', 'given up'),
    })
    const reply = await it_.post(path, { model: 'storyteller', stream: true, ...body })
    expect([reply.status, reply.ended]).toEqual([200, true])
    const last = reply.events.findLast((event) => event !== '[DONE]')
    expect(last.error ?? last.response.error).toMatchObject({ message: 'given up' })
    expect(it_.ends).toHaveLength(1)
    expect(it_.frontend.requestsInFlight).toBe(0)
  })

  it('a stream that was kept alive while it waited - ends with an error event', async () => {
    const it_ = new ScriptedFrontend({
      script: (run) => void run.routed(),
      limits: { commitAfterMs: 10, keepAliveMs: 10 },
    })
    const pending = it_.chat({ stream: true })
    await it_.clock.run(30)
    const reply = await pending
    it_.runs[0]?.fails('request.cancelled', 'given up')
    expect(reply.ended).toBe(true)
    expect(reply.events.at(-2).error).toMatchObject({ message: 'given up', stage: 'prefill' })
  })

  it('a forwarded stream - ends with an error event, and is not cut', async () => {
    const it_ = new ScriptedFrontend({
      engine: { runtimeData: { forwards: true } },
      options: { forwarding: { always: true, hasTokenizer: false } },
    })
    it_.script = (run) => {
      const flow = { pause: () => undefined, resume: () => undefined }
      run.routed().request.forward?.sink.onHead({ status: 200, headers: {} }, true, flow)
    }
    const reply = await it_.post('/v1/moderations', { model: 'storyteller', input: 'hi' })
    it_.runs[0]?.fails('request.cancelled', 'given up')
    expect(reply.ended).toBe(true)
    expect(reply.events[0].error).toMatchObject({ message: 'given up' })
  })

  it('a background response - has failed, because nobody cancelled it', async () => {
    const state = new MemoryStateStore({ clock: new VirtualClock(), ttlMs: 1e6, bytesMax: 1e6 })
    const it_ = new ScriptedFrontend({ script: (run) => void run.routed(), options: { state } })
    const fields = { model: 'storyteller', input: 'hi', background: true }
    const id: string = (await it_.post('/v1/responses', fields)).json.id
    await until('it runs', () => it_.runs.length === 1)
    it_.runs[0]?.fails('request.cancelled', 'given up')
    const response = async () => (await it_.get(`/v1/responses/${id}`)).json
    await until('it ends', async () => (await response()).status !== 'in_progress')
    expect(await response()).toMatchObject({ status: 'failed', error: { message: 'given up' } })
  })
})
