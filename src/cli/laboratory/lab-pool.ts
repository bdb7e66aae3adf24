/**
 * Runs cells in child processes, one per core. A process lives until the pool is closed, so that a search of
 * many small runs does not start a program for each run.
 *
 * Wanted cells run first; likely ones, which may be wanted next, use cores that would be idle.
 */
import { availableParallelism } from 'node:os'
import type { LabRun } from '../../sim/index.ts'
import { CellProcess } from './cell-process.ts'
import type { LabCell } from './lab-cell.ts'

interface LabPoolOptions {
  /** The program that the child processes run. */
  readonly main: string
  readonly jobs?: number
}

interface Task {
  readonly cell: LabCell
  readonly resolve: (run: LabRun) => void
  readonly reject: (error: unknown) => void
  isBegun: boolean
}

/** Runs that can be requested from the pool. */
export interface LabRuns {
  /** Marks the runs as likely: they start when no core is needed for wanted runs. */
  likely(): void
  /** Withdraws runs that have not started, until they are likely or wanted again. */
  unlikely(): void
  /**
   * Requests the runs with priority. Resolves in the order of the cells; the first failure ends everything in
   * the pool.
   */
  wanted(onDone?: (done: number) => void): Promise<LabRun[]>
}

export class LabPool {
  readonly jobs: number
  readonly #main: string
  readonly #idle: CellProcess[] = []
  readonly #all: CellProcess[] = []
  /** A queue; the first task is run next. */
  #wanted: Task[] = []
  #likely: Task[] = []
  #working = 0

  constructor({ main, jobs = availableParallelism() }: LabPoolOptions) {
    this.#main = main
    this.jobs = jobs
  }

  run(cells: readonly LabCell[], onDone?: (done: number) => void): Promise<LabRun[]> {
    return this.runs(cells).wanted(onDone)
  }

  runs(cells: readonly LabCell[]): LabRuns {
    const tasks: Task[] = []
    const all = cells.map(
      (cell) =>
        new Promise<LabRun>((resolve, reject) => {
          tasks.push({ cell, resolve, reject, isBegun: false })
        }),
    )
    // A failure is reported to the caller that wants the run.
    for (const run of all) run.catch(() => undefined)
    const waiting = (): readonly Task[] => tasks.filter(({ isBegun }) => !isBegun)
    const unlikely = (): void => {
      this.#likely = this.#likely.filter((task) => !tasks.includes(task))
    }
    return {
      unlikely,
      likely: () => {
        unlikely()
        this.#likely.push(...waiting().filter((task) => !this.#wanted.includes(task)))
        this.#work()
      },
      wanted: async (onDone) => {
        unlikely()
        this.#wanted.push(...waiting())
        this.#work()
        let done = 0
        for (const run of onDone === undefined ? [] : all)
          void run.then(() => onDone?.(++done)).catch(() => undefined)
        try {
          return await Promise.all(all)
        } catch (error) {
          this.close()
          throw error
        }
      },
    }
  }

  close(): void {
    for (const process of this.#all) process.kill()
    for (const list of [this.#all, this.#idle, this.#wanted, this.#likely]) list.length = 0
  }

  #work(): void {
    while (this.#working < this.jobs) {
      const task = this.#wanted.shift() ?? this.#likely.shift()
      if (task === undefined) return
      task.isBegun = true
      this.#working += 1
      void this.#runOne(task)
    }
  }

  async #runOne({ cell, resolve, reject }: Task): Promise<void> {
    let process = this.#idle.pop()
    if (process === undefined) {
      process = new CellProcess(this.#main)
      this.#all.push(process)
    }
    try {
      resolve(await process.run(cell))
      this.#idle.push(process)
    } catch (error) {
      // The process has exited with its reason.
      reject(error)
    }
    this.#working -= 1
    this.#work()
  }
}
