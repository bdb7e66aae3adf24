import { describe, expect, it } from 'vitest'
import { ScriptedFrontend, WORKER } from '../../../test/frontend/scripted-frontend.ts'
import { VirtualClock } from '../../sim/index.ts'
import type { RequestFacts } from '../generation/frontend-event.ts'
import { RequestLog } from './request-log.ts'

const facts = (requestId: string): RequestFacts => ({
  requestId,
  model: 'm',
  endpoint: 'completions',
  streamed: true,
  traceparent: undefined,
})

interface Listed {
  readonly requests: readonly { readonly requestId: string; readonly end: object | null }[]
}

function fill(log: RequestLog, clock: VirtualClock, requests: number): void {
  for (let i = 0; i < requests; i++) {
    log.observe({ kind: 'received', atMs: clock.nowMs() }, facts(`r${i}`))
  }
}

function advance(clock: VirtualClock, untilMs: number): void {
  clock.after(untilMs - clock.nowMs(), () => undefined)
  while (clock.fireNext(untilMs));
}

describe('GET /debug/requests', () => {
  it('a call - its phases since its arrival and how it ended, without its text', async () => {
    const it_ = new ScriptedFrontend()
    await it_.chat({}, { 'x-request-id': 'mine' })
    const answer = await it_.get('/debug/requests')
    expect(answer.json).toMatchObject({
      requests: [
        {
          requestId: 'mine',
          model: 'storyteller',
          endpoint: 'chat_completions',
          phases: [
            { kind: 'tokenised' },
            { kind: 'routed', workerId: WORKER, promptBlocks: 4, overlapBlocks: 1 },
            { kind: 'firstToken' },
          ],
          end: { outcome: 'success', status: 200 },
        },
      ],
    })
    expect(answer.body).not.toContain('Once')
  })

  it('a running call - has no end yet, and comes before those that have ended', async () => {
    const it_ = new ScriptedFrontend({ script: (run, nth) => void (nth > 0 || run.routed()) })
    it_.script = (run, nth) => void (nth === 0 ? run.routed().says('x').ends() : run.routed())
    await it_.chat({}, { 'x-request-id': 'over' })
    void it_.chat({ stream: true }, { 'x-request-id': 'runs' })
    await Promise.resolve()
    const { requests } = (await it_.get('/debug/requests')).json as unknown as Listed
    expect(requests.map(({ requestId, end }) => [requestId, end === null])).toEqual([
      ['runs', true],
      ['over', false],
    ])
  })

  it('a refused call - is listed with its error', async () => {
    const it_ = new ScriptedFrontend()
    await it_.chat({ model: 'nope' }, { 'x-request-id': 'bad' })
    expect((await it_.get('/debug/requests/bad')).json).toMatchObject({
      request: { end: { outcome: 'error', status: 404 } },
    })
  })
})

describe('RequestLog', () => {
  it.each([
    [49, 49],
    [50, 50],
    [51, 50],
  ])('%i new requests in a second - %i are recorded, all are counted', (sent, recorded) => {
    const clock = new VirtualClock()
    const log = new RequestLog(clock)
    fill(log, clock, sent)
    expect([log.latest(1000).length, log.sums.received]).toEqual([recorded, sent])
  })

  it('the next second - requests are recorded again', () => {
    const clock = new VirtualClock()
    const log = new RequestLog(clock)
    fill(log, clock, 60)
    advance(clock, 1000)
    log.observe({ kind: 'received', atMs: clock.nowMs() }, facts('late'))
    expect(log.latest(1)[0]?.requestId).toBe('late')
  })

  it('many ended requests - the oldest are dropped', () => {
    const clock = new VirtualClock()
    const log = new RequestLog(clock)
    for (let i = 0; i < 600; i++) {
      advance(clock, i * 100)
      log.observe({ kind: 'received', atMs: clock.nowMs() }, facts(`r${i}`))
      log.observe(
        {
          kind: 'ended',
          outcome: i % 3 === 0 ? 'error' : 'success',
          status: 200,
          durationMs: 1,
          preprocessMs: 0,
          ttftMs: 1,
          itlMs: undefined,
          promptTokens: 10,
          completionTokens: 2,
          cachedTokens: 4,
          errorCode: undefined,
          errorMessage: undefined,
          stage: undefined,
          ttftTargetMs: undefined,
          itlTargetMs: undefined,
          requestTimestampMs: undefined,
          sessionId: undefined,
          tenantId: undefined,
          atMs: clock.nowMs(),
        },
        facts(`r${i}`),
      )
    }
    expect(log.latest(1000)).toHaveLength(500)
    expect([log.find('r99'), log.find('r100')?.requestId]).toEqual([null, 'r100'])
    expect(log.sums).toMatchObject({
      succeeded: 400,
      failed: 200,
      promptTokens: 6000,
      cachedTokens: 2400,
    })
  })

  it('a request that migrates again and again - has a bounded number of phases', () => {
    const clock = new VirtualClock()
    const log = new RequestLog(clock)
    log.observe({ kind: 'received', atMs: 0 }, facts('r'))
    for (let i = 0; i < 100; i++) {
      log.observe({ kind: 'prefillQueued', phase: 'prefill', atMs: i }, facts('r'))
    }
    expect(log.find('r')?.phases).toHaveLength(60)
  })
})
