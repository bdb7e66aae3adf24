import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { changeByAgreement } from './role-agreement.ts'
import type { RoleOutcome } from './role-agreement.ts'
import { RoleHold } from './role-hold.ts'

const REST_MS = 60_000

interface FakeWorker {
  readonly id: WorkerId
  readonly hold: RoleHold
  role: 'prefill' | 'decode'
}

/** Workers that decide with the real `RoleHold`, and messages that arrive in any order. */
class Fleet {
  nowMs = 0
  readonly workers: readonly FakeWorker[]
  readonly changed: WorkerId[] = []
  readonly #deliver: <T>(answer: () => T) => Promise<T>

  constructor(count: number, deliver: <T>(answer: () => T) => Promise<T>) {
    this.#deliver = deliver
    this.workers = Array.from({ length: count }, (_, i) => ({
      id: workerIdOf(i + 1),
      hold: new RoleHold(),
      role: 'decode' as const,
    }))
  }

  /** A frontend that sees the workers with these indexes wants to change one of them. */
  change(by: string, target: number, seen: readonly number[]): Promise<RoleOutcome> {
    const ids = seen.map((index) => this.#at(index).id)
    const of = (id: WorkerId) => this.workers.find((worker) => worker.id === id) as FakeWorker
    return changeByAgreement(
      { workerId: this.#at(target).id },
      { changeable: ids, staying: ids, fixed: 0 },
      {
        hold: (id) => this.#deliver(() => of(id).hold.ask(by, REST_MS, this.nowMs)),
        release: (id) => this.#deliver(() => of(id).hold.release(by)),
        change: (id) =>
          this.#deliver(() => {
            const worker = of(id)
            if (!worker.hold.isHeldBy(by, this.nowMs)) throw new Error('not held')
            worker.role = 'prefill'
            this.changed.push(id)
          }),
      },
    )
  }

  #at(index: number): FakeWorker {
    return this.workers[index % this.workers.length] as FakeWorker
  }
}

const atOnce = async <T>(answer: () => T): Promise<T> => await Promise.resolve().then(answer)
const kinds = (outcomes: readonly PromiseSettledResult<RoleOutcome>[]): string[] =>
  outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value.kind : 'failed'))

describe('changeByAgreement', () => {
  it('two frontends that cannot reach each other decide at once - one changes one worker', async () => {
    const fleet = new Fleet(3, atOnce)
    const outcomes = await Promise.allSettled([
      fleet.change('a', 0, [0, 1, 2]),
      fleet.change('b', 1, [0, 1, 2]),
    ])
    expect(kinds(outcomes).toSorted()).toEqual(['changed', 'left'])
    expect(fleet.changed).toHaveLength(1)
  })

  it('messages in any order, frontends that see different workers - each role keeps a worker, and one change wins', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.integer({ min: 2, max: 5 }),
        fc.array(fc.nat({ max: 4 }), { minLength: 2, maxLength: 4 }),
        async (scheduler, count, targets) => {
          const fleet = new Fleet(count, async (answer) =>
            scheduler.schedule(Promise.resolve()).then(answer),
          )
          const all = fleet.workers.map((_, index) => index)
          const attempts = targets.map((target, i) => fleet.change(`f${i}`, target % count, all))
          await scheduler.waitFor(Promise.allSettled(attempts))
          expect(fleet.changed.length).toBeLessThanOrEqual(1)
          expect(fleet.workers.some(({ role }) => role === 'decode')).toBe(true)
        },
      ),
      { numRuns: 300 },
    )
  })

  it('a change shortly after another one - is left, with the time until it is possible', async () => {
    const fleet = new Fleet(3, atOnce)
    await fleet.change('a', 0, [0, 1, 2])
    fleet.nowMs = 50_000
    expect(await fleet.change('b', 1, [0, 1, 2])).toMatchObject({ kind: 'left', leftMs: 10_000 })
    fleet.nowMs = REST_MS
    expect(await fleet.change('b', 1, [0, 1, 2])).toEqual({ kind: 'changed' })
  })

  it('an attempt that is left - releases what it got, so that the next one succeeds', async () => {
    const fleet = new Fleet(3, atOnce)
    expect(fleet.workers[2]?.hold.ask('a', 1000, 0)).toEqual({ granted: true, leftMs: 0 })
    expect(await fleet.change('b', 0, [0, 1, 2])).toMatchObject({ kind: 'left', leftMs: 1000 })
    fleet.nowMs = 1000
    expect(await fleet.change('c', 0, [0, 1, 2])).toEqual({ kind: 'changed' })
  })

  it('workers that do not answer - no change without most of them, the worker itself, and one that stays', async () => {
    const silent = (quiet: readonly string[], of: readonly string[]) =>
      changeByAgreement(
        { workerId: workerIdOf(1) },
        { changeable: of.map(Number).map(workerIdOf), staying: [2, 3].map(workerIdOf), fixed: 0 },
        {
          hold: async (id) => {
            if (quiet.includes(id)) throw new Error('no answer')
            return await Promise.resolve({ granted: true, leftMs: 0 })
          },
          release: async () => await Promise.resolve(),
          change: async () => await Promise.resolve(),
        },
      )
    const all = ['1', '2', '3']
    expect(await silent([], all)).toEqual({ kind: 'changed' })
    expect(await silent(['3'], all)).toEqual({ kind: 'changed' })
    expect(await silent(['1'], all)).toMatchObject({ why: 'the worker does not answer' })
    expect(await silent(['2', '3'], all)).toMatchObject({ why: 'too few workers answer' })
    expect(await silent(['2', '3'], [...all, '4', '5'])).toMatchObject({
      why: 'no other worker confirms that it keeps this role',
    })
  })

  it('an administrator has changed a role - frontends leave that worker alone for a time', async () => {
    const fleet = new Fleet(2, atOnce)
    fleet.workers[0]?.hold.restFor(REST_MS, 0)
    expect(await fleet.change('a', 1, [0, 1])).toMatchObject({ kind: 'left', leftMs: REST_MS })
  })
})
