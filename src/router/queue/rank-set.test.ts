import { describe, expect, it } from 'vitest'
import { buildModel } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { workerIdOf } from '../../base/index.ts'
import type { RoutingHints, WorkerCard } from '../../request/index.ts'
import { completePolicyClasses } from '../configuration/policy-class.ts'
import type { PolicyClass } from '../configuration/policy-class.ts'
import type { RouterOptions } from '../configuration/router-config.ts'
import { ClassQueue } from './class-queue.ts'
import type { QueueEntry } from './class-queue.ts'
import type { RankSet } from './rank-set.ts'

type Model = ReturnType<typeof buildModel>

const ENGINE = { maxNumSeqs: 2 }

/** Worker 1 has everything that a request may ask for, worker 2 has nothing. */
const SPECIAL = card(1, 'agg', { taints: ['gold'], engine: { ...ENGINE, loraAdapters: ['tuned'] } })
const OTHER = card(2, 'agg', { engine: ENGINE })
const ASKED: readonly (readonly [string, RoutingHints])[] = [
  ['a taint', { requiredTaints: ['gold'] }],
  ['a LoRA adapter', { loraName: 'tuned' }],
  ['a worker by its id', { backendWorkerId: workerIdOf(1) }],
  ['allowed workers', { allowedWorkerIds: [workerIdOf(1)] }],
  ['a session', { sessionId: 's' }],
]

function build(cards: readonly WorkerCard[] = [SPECIAL, OTHER], config: RouterOptions = {}): Model {
  return buildModel(cards, { engineQueue: 1, session: { ttlSeconds: 600 }, ...config })
}

const workersOf = ({ plane }: Model): string[] => plane.calls.map(({ workerId }) => workerId)

function entryOf(ranks: RankSet): QueueEntry {
  const tokens = { promptTokens: 16, cachedTokens: 0, cost: 16 }
  const order = { strictPriority: 0, priority: 0, tenant: '', tenantWeight: 1 }
  const times = { arrivedMs: 0, startByMs: 0, isLate: false }
  return { requestId: 'r', ...tokens, ...order, ...times, ranks, canGo: () => false }
}

/** Each worker ends its oldest request, as long as it has one. */
function finishOldest({ plane }: Model, ended: Set<number>, workerId: string): void {
  const next = plane.calls.findIndex((call, i) => call.workerId === workerId && !ended.has(i))
  if (next === -1) return
  ended.add(next)
  plane.call(next).finish()
}

describe.each(ASKED)('requests that ask for %s of one worker', (_, routing) => {
  it('wait for it, and others go to the idle one', () => {
    const model = build()
    if (routing.sessionId !== undefined) {
      // Binds the session to worker 1.
      model.send({ ...routing, allowedWorkerIds: [workerIdOf(1)] })
      model.plane.call(0).finish()
    }
    const before = model.plane.calls.length
    for (let i = 0; i < 6; i++) model.send(routing)
    expect(workersOf(model).slice(before)).toEqual(['1', '1', '1'])
    expect(model.router.status().decode.queuedRequests).toBe(3)
    for (let i = 0; i < 3; i++) model.send()
    expect(workersOf(model).slice(before + 3)).toEqual(['2', '2', '2'])
    expect(model.router.status().decode.queuedRequests).toBe(3)
  })

  it('ten times what it can do - no other request is refused or waits', () => {
    const model = build()
    if (routing.sessionId !== undefined) {
      model.send({ ...routing, allowedWorkerIds: [workerIdOf(1)] })
      model.plane.call(0).finish()
    }
    const ended = new Set<number>(model.plane.calls.keys())
    const flood: ReturnType<Model['send']>[] = []
    const others: ReturnType<Model['send']>[] = []
    for (let tick = 0; tick < 300; tick++) {
      for (let i = 0; i < 10; i++) flood.push(model.send(routing))
      if (tick % 3 === 0) {
        const sent = model.plane.calls.length
        others.push(model.send())
        expect(workersOf(model).slice(sent)).toEqual(['2'])
      }
      finishOldest(model, ended, '1')
      finishOldest(model, ended, '2')
      model.clock.advance(100)
    }
    expect(others.flatMap(({ sink }) => sink.errors)).toEqual([])
    const refused = flood.filter(({ sink }) => sink.errors.length > 0).length
    expect(refused).toBeGreaterThan(0.8 * flood.length)
    // What is queued for it is what it starts within a second, not what both workers start.
    expect(model.router.status().decode.queuedRequests).toBeLessThan(10)
  })
})

describe('the set of ranks of a queued request', () => {
  it('a full fleet - requests are sent in the order of their arrival, whatever they ask for', () => {
    const model = build()
    for (let i = 0; i < 6; i++) model.send()
    const first = model.send({ requiredTaints: ['gold'] })
    const second = model.send()
    expect(model.plane.calls.length).toBe(6)
    model.plane.calls.find(({ workerId }) => workerId === '1')?.finish()
    expect(model.plane.call(6).request.requestId).toBe(first.sent.requestId)
    model.plane.calls.find(({ workerId }) => workerId === '2')?.finish()
    expect(model.plane.call(7).request.requestId).toBe(second.sent.requestId)
  })

  it('a worker joins that has the adapter of some - those go, although others wait before them', () => {
    const both = { ...ENGINE, loraAdapters: ['a', 'b'] }
    const model = build([card(1, 'agg', { engine: both })])
    for (let i = 0; i < 3; i++) model.send({ loraName: 'a' })
    model.send({ loraName: 'a' })
    const wanted = model.send({ loraName: 'b' })
    expect(workersOf(model)).toEqual(['1', '1', '1'])
    model.router.fleet.workerJoined(card(2, 'agg', { engine: { ...ENGINE, loraAdapters: ['b'] } }))
    expect(workersOf(model)).toEqual(['1', '1', '1', '2'])
    expect(model.plane.call(3).request.requestId).toBe(wanted.sent.requestId)
  })

  it('the only worker of some leaves - they are refused, and the others go on', () => {
    const model = build()
    for (let i = 0; i < 3; i++) model.send({ requiredTaints: ['gold'] })
    const waiting = model.send({ requiredTaints: ['gold'] })
    model.router.fleet.workerLeft(workerIdOf(1), 'gone')
    expect(waiting.sink.errors.length).toBe(1)
    model.send()
    expect(workersOf(model).at(-1)).toBe('2')
  })

  it('adapters of the same workers - share one limit under overload', () => {
    const names = Array.from({ length: 20 }, (_, i) => `tuned-${i}`)
    const model = build([card(1, 'agg', { engine: { ...ENGINE, loraAdapters: names } })])
    const ended = new Set<number>()
    for (let tick = 0; tick < 100; tick++) {
      for (let i = 0; i < 10; i++) model.send({ loraName: names[(tick * 10 + i) % 20] as string })
      finishOldest(model, ended, '1')
      model.clock.advance(100)
    }
    expect(model.router.status().decode.queuedRequests).toBeLessThan(20)
  })

  it('a thousand sets - looking at one does not look at the others', () => {
    let reads = 0
    const sets = Array.from({ length: 1000 }, (_, slot) => ({
      share: 0.001,
      slots: [slot],
      get key() {
        reads++
        return `:${slot}`
      },
    }))
    const [policyClass] = completePolicyClasses([], { queuePolicy: 'fcfs', queueThreshold: null })
    const queue = new ClassQueue(policyClass as PolicyClass)
    for (const ranks of sets) queue.add(entryOf(ranks))
    reads = 0
    for (const ranks of sets) {
      expect(queue.last(ranks)?.ranks).toBe(ranks)
      expect(queue.countSooner(entryOf(ranks))).toBe(1)
    }
    expect(reads).toBeLessThan(10 * sets.length)
  })

  it('many tenants, a clock that never shows the same time twice - one check for all of a set', () => {
    const model = build()
    const { clock } = model
    let [now, reads] = [clock.nowMs(), 0]
    Object.assign(clock, { nowMs: () => (now += 1e-4) })
    for (let i = 0; i < 100; i++) {
      const routing: RoutingHints = {
        tenantId: `t${i}`,
        get loraName() {
          reads++
          return 'tuned'
        },
      }
      model.send(routing)
    }
    reads = 0
    model.plane.call(0).finish()
    expect(model.router.status().decode.queuedRequests).toBe(96)
    // Each of the 96 has a lane of its own.
    expect(reads).toBeLessThan(96)
  })
})
