import { describe, expect, it } from 'vitest'

import { ManualClock } from '../../../test/router/manual-clock.ts'
import { card, RecordingSink, request, ScriptedPlane } from '../../../test/router/scripted-plane.ts'
import { seededRandom, workerIdOf } from '../../base/index.ts'
import type { RoutingHints } from '../../request/index.ts'
import { KvRouter } from '../decide/kv-router.ts'
import { completeRouterConfig } from '../configuration/router-config.ts'
import type { RouterOptions } from '../configuration/router-config.ts'
import { WorkerRouter } from './worker-router.ts'

function build(options: RouterOptions, workers = 1) {
  const clock = new ManualClock()
  const plane = new ScriptedPlane()
  const config = completeRouterConfig(options)
  const router = new KvRouter({ config, clock, random: seededRandom(5) })
  const service = new WorkerRouter({ router, plane, clock })
  for (let id = 1; id <= workers; id++) router.workerJoined(card(id))
  const send = (routing: RoutingHints = {}, tokens = 16) => {
    const sink = new RecordingSink()
    const sent = request(tokens, routing)
    return { sink, sent, handle: service.send(sent, sink) }
  }
  const order = () => plane.calls.map((call) => call.request.requestId)
  return { clock, plane, router, service, send, order }
}

/** One prompt fills a worker: more than a hundredth of its 1000 batched tokens are in flight. */
const FULL = { queueThreshold: 0.01 }

describe('WorkerRouter: load', () => {
  it('booking - prefill ends at the first token, everything at the end', () => {
    const { plane, service, send } = build({})
    send()
    const rank = () => service.status().ranks[0]
    expect(rank()).toMatchObject({ activePrefillTokens: 16, activeDecodeBlocks: 4 })
    plane.call(0).token()
    expect(rank()).toMatchObject({ activePrefillTokens: 0, activeDecodeBlocks: 4 })
    plane.call(0).finish()
    expect(rank()).toMatchObject({ activeRequests: 0, activeDecodeBlocks: 0 })
  })

  it('freed before the end is reported - a query in between sees no load', () => {
    const { plane, service } = build({})
    const seen: (number | undefined)[] = []
    const sink = new RecordingSink()
    sink.onChunk = () => void seen.push(service.status().ranks[0]?.activeRequests)
    service.send(request(16), sink)
    plane.call(0).finish()
    expect(seen).toEqual([0])
  })

  it('output blocks - grow with the tokens, and count less towards the expected end', () => {
    const { plane, service, send } = build({ trackOutputBlocks: true })
    const blocks = () => service.status().ranks[0]?.activeDecodeBlocks
    send()
    for (let i = 0; i < 5; i++) plane.call(0).token()
    expect(blocks()).toBe(6)
    plane.call(0).finish()
    send({ expectedOutputTokens: 10 })
    for (let i = 0; i < 5; i++) plane.call(1).token()
    expect(blocks()).toBe(Math.round(6 * 0.5))
  })

  it('after the end - a late token is ignored', () => {
    const { plane, send } = build({})
    const { sink, handle } = send()
    plane.call(0).finish()
    plane.call(0).token()
    plane.call(0).fail('backend.unknown')
    handle.cancel('kill')
    expect([sink.ends, sink.tokens.length]).toEqual([1, 0])
  })

  it.each([
    'transport.cannot_connect',
    'transport.unauthenticated',
    'transport.tls_failed',
  ] as const)('an unreachable worker, %s - is excluded until its next report', (code) => {
    const { plane, router, send } = build({ mode: 'round-robin' }, 2)
    send()
    plane.call(0).fail(code)
    for (let i = 0; i < 3; i++) send()
    expect(plane.calls.slice(1).map(({ workerId }) => workerId)).toEqual(['2', '2', '2'])
    router.workerJoined(card(1))
    send()
    send()
    expect(plane.calls.slice(4).map(({ workerId }) => workerId)).toContain('1')
  })
})

describe('WorkerRouter: queue', () => {
  it('requests queue while every worker is busy, and are sent when one has capacity', () => {
    const { plane, clock, service, send } = build(FULL)
    send()
    const { sink } = send()
    expect(plane.calls).toHaveLength(1)
    expect(service.status()).toMatchObject({ queuedRequests: 1, queuedPromptTokens: 16 })
    clock.advance(30)
    plane.call(0).token()
    expect(plane.calls).toHaveLength(2)
    expect(sink.routed[0]?.queuedMs).toBe(30)
  })

  it.each([
    ['fcfs', [1, 2, 3]],
    ['lcfs', [3, 2, 1]],
    ['wspt', [2, 3, 1]],
  ] as const)('%s - order of arrival, of the last, of the shortest', (queuePolicy, expected) => {
    const { plane, clock, send, order } = build({ ...FULL, queuePolicy })
    send()
    const ids = [48, 16, 32].map((tokens) => {
      clock.advance(1)
      return send({}, tokens).sent.requestId
    })
    for (let i = 0; i < 4; i++) plane.call(i).finish()
    expect(order().slice(1)).toEqual(expected.map((n) => ids[n - 1]))
  })

  it('strict priority goes first, priority is a head start in seconds', () => {
    const { plane, clock, send, order } = build(FULL)
    send()
    const first = send().sent.requestId
    clock.advance(500)
    const jumped = send({ priority: 1 }).sent.requestId
    const strict = send({ strictPriority: 1 }).sent.requestId
    for (let i = 0; i < 4; i++) plane.call(i).finish()
    expect(order().slice(1)).toEqual([strict, jumped, first])
  })

  it('tenants - one with many requests does not delay the others', () => {
    const { plane, send, order } = build(FULL)
    send()
    const many = [1, 2, 3].map(() => send({ tenantId: 'a' }).sent.requestId)
    const one = send({ tenantId: 'b' }).sent.requestId
    for (let i = 0; i < 5; i++) plane.call(i).finish()
    expect(order().slice(1)).toEqual([many[0], one, many[1], many[2]])
  })

  it('classes - deficit round robin shares capacity by tokens', () => {
    const { plane, send } = build({
      policyClasses: [
        { name: 'default', prefillBusyThreshold: 0 },
        { name: 'a', prefillBusyThreshold: 0, quantum: 32 },
        { name: 'b', prefillBusyThreshold: 0, quantum: 16 },
      ],
    })
    send()
    for (let i = 0; i < 6; i++) {
      send({ policyClass: 'a' })
      send({ policyClass: 'b' })
    }
    for (let i = 0; i < 13; i++) plane.call(i).finish()
    const classes = plane.calls.slice(1).map((call) => call.request.routing.policyClass)
    expect(classes.slice(0, 9).filter((name) => name === 'a')).toHaveLength(6)
  })

  it('families - the uncached length selects the class', () => {
    const { send, service } = build({
      // Repeated prompts count as uncached.
      predictedTtlSeconds: 0,
      policyClasses: [
        { name: 'short', family: 'default', prefillBusyThreshold: 0, requestLimitPerWorker: 1 },
        { name: 'long', family: 'default', minUncachedTokens: 32, prefillBusyThreshold: 0 },
      ],
    })
    send()
    for (const tokens of [16, 40, 40]) expect(send({}, tokens).sink.errors).toHaveLength(0)
    expect(send({}, 16).sink.errors[0]?.data['policyClass']).toBe('short')
    expect(send({ policyClass: 'long' }, 16).sink.errors).toHaveLength(0)
    expect(service.status().queuedRequests).toBe(4)
  })

  it('a pinned request - waits only for its own worker', () => {
    const { plane, send } = build(FULL, 2)
    send({ backendWorkerId: workerIdOf(1) })
    send({ backendWorkerId: workerIdOf(2) })
    send({ backendWorkerId: workerIdOf(1) })
    const other = send({ backendWorkerId: workerIdOf(2) })
    plane.call(1).finish()
    expect(plane.calls).toHaveLength(3)
    expect(plane.call(2).request.requestId).toBe(other.sent.requestId)
  })

  it('limits - the refusal contains limit, current value and a retry time', () => {
    const { send } = build({ ...FULL, maxQueuedRequests: 1 })
    send()
    send()
    const { sink } = send()
    expect(sink.errors[0]?.code).toBe('capacity.exhausted')
    expect(sink.errors[0]?.data).toMatchObject({ limit: 1, current: 1, retryAfterMs: 1000 })
    const limited = build({
      policyClasses: [{ name: 'default', prefillBusyThreshold: 0, requestLimitPerWorker: 1 }],
    })
    limited.send()
    limited.send()
    expect(limited.send().sink.errors[0]?.data).toMatchObject({
      policyClass: 'default',
      kind: 'requests',
      limit: 1,
      current: 1,
    })
  })

  it('queue deadline - ends with an error that names the stage', () => {
    const { clock, service, send } = build({
      ...FULL,
      deadlines: { queueMs: 100, firstTokenMs: 0 },
    })
    send()
    const { sink } = send()
    clock.advance(100)
    expect(sink.errors[0]?.code).toBe('request.deadline_exceeded')
    expect(sink.errors[0]?.data['stage']).toBe('queue')
    expect(service.status().queuedRequests).toBe(0)
  })

  it('cancelled in the queue - never reaches a worker', () => {
    const { plane, send, service } = build(FULL)
    send()
    const { sink, handle } = send()
    handle.cancel('stop')
    expect(sink.finish).toBe('cancelled')
    plane.call(0).finish()
    expect(plane.calls).toHaveLength(1)
    expect(service.status()).toMatchObject({ queuedRequests: 0, activeRequests: 0 })
  })

  it('a worker that ends with cancelled - has failed if it was not asked to', () => {
    const { plane, send } = build({})
    const unasked = send()
    plane.call(0).finish('cancelled')
    expect(unasked.sink.finish).toBeUndefined()
    expect(unasked.sink.errors[0]).toMatchObject({
      code: 'backend.cancelled',
      row: { migratable: true },
    })
    const asked = send()
    asked.handle.cancel('stop')
    plane.call(1).finish('cancelled')
    expect([asked.sink.finish, asked.sink.errors]).toEqual(['cancelled', []])
  })

  it('close - queued requests are refused', () => {
    const { service, send } = build(FULL)
    send()
    const { sink } = send()
    service.close()
    expect(sink.errors[0]?.code).toBe('backend.worker_unavailable')
  })

  it('close - does not send one queued request in place of another, and leaves no timer', () => {
    const { clock, plane, service, send } = build(FULL, 2)
    send()
    send()
    const pinned = send({ backendWorkerId: workerIdOf(1) }).sink
    const free = send({ backendWorkerId: workerIdOf(2) }).sink
    service.close()
    expect([pinned, free].map(({ errors }) => errors.length)).toEqual([1, 1])
    expect(send().sink.errors[0]?.code).toBe('backend.worker_unavailable')
    expect(plane.calls).toHaveLength(2)
    for (const i of [0, 1]) plane.call(i).finish()
    expect(clock.timerCount).toBe(0)
    expect(service.status()).toMatchObject({ queuedRequests: 0, activeRequests: 0 })
  })
})

describe('WorkerRouter: sessions', () => {
  const session = { session: { ttlSeconds: 10 } }
  const s = { sessionId: 's' }

  it('hard affinity - the session stays on its worker, regardless of cost', () => {
    const { plane, send } = build(session, 2)
    send(s)
    const home = plane.call(0).workerId
    for (let i = 0; i < 3; i++) send(s)
    expect(plane.calls.every(({ workerId }) => workerId === home)).toBe(true)
  })

  it('idle time - starts when the last request ends', () => {
    const { plane, clock, service, send } = build({ ...session, deadlines: { firstTokenMs: 0 } }, 2)
    send(s)
    clock.advance(60_000)
    expect(service.sessionCount).toBe(1)
    plane.call(0).finish()
    clock.advance(9_000)
    send({ ...s })
    expect(plane.call(1).workerId).toBe(plane.call(0).workerId)
    plane.call(1).finish()
    clock.advance(10_000)
    send({ ...s, excludedWorkerIds: [plane.call(0).workerId] })
    expect(plane.call(2).workerId).not.toBe(plane.call(0).workerId)
  })

  it("a session id of another tenant - is another session: it neither moves nor closes the first tenant's", () => {
    const { plane, service, send } = build(session, 2)
    const theirs = { ...s, tenantId: 'theirs' }
    const ours = { ...s, tenantId: 'ours' }
    send(theirs)
    send(ours)
    expect(service.sessionCount).toBe(2)
    const [home, other] = [plane.call(0).workerId, plane.call(1).workerId]
    expect(other).not.toBe(home)
    send({ ...ours, sessionAction: 'close' })
    expect(plane.call(2).workerId).toBe(other)
    plane.call(1).finish()
    plane.call(2).finish()
    expect(service.sessionCount).toBe(1)
    send(theirs)
    expect(plane.call(3).workerId).toBe(home)
  })

  it('idle time over - the binding is dropped, whether the session returns or not', () => {
    const { plane, clock, service, send } = build(session)
    send(s)
    plane.call(0).finish()
    clock.advance(9_999)
    expect(service.sessionCount).toBe(1)
    clock.advance(1)
    expect(service.sessionCount).toBe(0)
  })

  it('worker gone - the binding is dropped and made anew', () => {
    const { plane, router, send } = build(session, 2)
    send(s)
    const home = plane.call(0).workerId
    router.workerLeft(home, 'gone')
    const { sink } = send(s)
    expect(sink.errors).toHaveLength(0)
    expect(plane.call(1).workerId).not.toBe(home)
  })

  it('failure - drops the binding', () => {
    const { plane, service, send } = build(session, 2)
    send(s)
    plane.call(0).fail('backend.unknown')
    expect(service.sessionCount).toBe(0)
  })

  it('soft affinity - another worker if its own cannot take the request', () => {
    const { plane, send } = build(
      { session: { ttlSeconds: 10, soft: true }, busy: { activePrefillTokens: 5 } },
      2,
    )
    send(s)
    send(s)
    expect(new Set(plane.calls.map(({ workerId }) => workerId)).size).toBe(2)
  })

  it('opened and closed by the request - works without configuration', () => {
    const { plane, service, send } = build({}, 2)
    send(s)
    expect(service.sessionCount).toBe(0)
    send({ ...s, sessionAction: 'open', sessionTimeoutSeconds: 5 })
    send(s)
    expect(plane.call(2).workerId).toBe(plane.call(1).workerId)
    send({ ...s, sessionAction: 'close' })
    expect(plane.call(3).workerId).toBe(plane.call(1).workerId)
    for (let i = 0; i < 4; i++) plane.call(i).finish()
    expect(service.sessionCount).toBe(0)
  })

  it('a named worker - takes precedence over the binding', () => {
    const { plane, send } = build(session, 2)
    send(s)
    const other = workerIdOf(plane.call(0).workerId === '1' ? 2 : 1)
    send({ ...s, backendWorkerId: other })
    expect(plane.call(1).workerId).toBe(other)
  })

  it('limit - the binding that was idle longest is dropped first', () => {
    const { plane, service, send } = build({ session: { ttlSeconds: 10, maxSessions: 2 } })
    for (const sessionId of ['a', 'b', 'c']) {
      send({ sessionId })
      plane.calls.at(-1)?.finish()
    }
    expect(service.sessionCount).toBe(2)
  })

  it('query - creates no binding', () => {
    const { service, send, plane } = build(session)
    send({ ...s, queryOnly: true })
    expect([service.sessionCount, plane.calls.length]).toEqual([0, 0])
  })
})
