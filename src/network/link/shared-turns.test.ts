import { describe, expect, it } from 'vitest'
import { until } from '../../../test/until.ts'
import { SharedTurns } from './shared-turns.ts'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Has `left` of work, in steps of at most `stepMax`. */
class Work {
  left: number
  readonly done: number[] = []
  readonly #stepMax: number
  readonly #turn: () => number

  constructor(left: number, stepMax: number, turn: () => number) {
    this.left = left
    this.#stepMax = stepMax
    this.#turn = turn
  }

  get wantsTurn(): boolean {
    return this.left > 0
  }

  step(sizeMax: number): number {
    const size = Math.min(this.left, this.#stepMax, sizeMax)
    this.left -= size
    const turn = this.#turn()
    this.done[turn] = (this.done[turn] ?? 0) + size
    return size
  }
}

describe('SharedTurns', () => {
  it('five tasks with much to do - a turn does a bounded part of all, and all get on', async () => {
    const turns = new SharedTurns(100)
    let turn = 0
    const tasks = Array.from({ length: 5 }, () => new Work(1_000, 60, () => turn))
    for (const task of tasks) turns.add(task)
    for (; tasks.some((task) => task.left > 0); turn++) await nextTurn()
    const perTurn = Array.from({ length: turn + 1 }, (_, t) =>
      tasks.reduce((sum, { done }) => sum + (done[t] ?? 0), 0),
    )
    expect(Math.max(...perTurn)).toBeLessThanOrEqual(100)
    // None is finished before another one has begun.
    const firstEnd = Math.min(...tasks.map(({ done }) => done.length))
    for (const { done } of tasks) expect(done.findIndex((size) => size > 0)).toBeLessThan(firstEnd)
  })

  it('work that was done at once - uses up the turn, and the next one begins afresh', async () => {
    const turns = new SharedTurns(100)
    turns.spend(150)
    expect(turns.isSpent).toBe(true)
    await until('the next turn', () => !turns.isSpent)
  })

  it('a task that was removed - is not called', async () => {
    const turns = new SharedTurns(100)
    const task = new Work(10, 10, () => 0)
    turns.add(task)
    turns.remove(task)
    await nextTurn()
    await nextTurn()
    expect(task.left).toBe(10)
  })
})
