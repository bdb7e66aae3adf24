/**
 * Runs cells in processes of their own, as many at once as the machine has cores. A process stays until the pool is
 * closed, so that a search of many small runs does not start a program for each.
 */
import { availableParallelism } from 'node:os'
import type { LabRun } from '../../sim/index.ts'
import { CellProcess } from './cell-process.ts'
import type { LabCell } from './lab-cell.ts'

interface LabPoolOptions {
  /** The program that this process runs. */
  readonly main: string
  readonly jobs?: number
}

export class LabPool {
  readonly #main: string
  readonly #jobs: number
  readonly #idle: CellProcess[] = []
  readonly #all: CellProcess[] = []

  constructor({ main, jobs = availableParallelism() }: LabPoolOptions) {
    this.#main = main
    this.#jobs = jobs
  }

  /** In the order of the cells. The first failure ends the others. */
  async run(cells: readonly LabCell[], onDone?: (done: number) => void): Promise<LabRun[]> {
    const runs: LabRun[] = []
    let [next, done] = [0, 0]
    const work = async (): Promise<void> => {
      const process = this.#take()
      while (next < cells.length) {
        const index = next++
        runs[index] = await process.run(cells[index]!)
        onDone?.(++done)
      }
      this.#idle.push(process)
    }
    try {
      await Promise.all(Array.from({ length: Math.min(this.#jobs, cells.length) }, work))
    } catch (error) {
      this.close()
      throw error
    }
    return runs
  }

  close(): void {
    for (const process of this.#all) process.kill()
    this.#all.length = 0
    this.#idle.length = 0
  }

  #take(): CellProcess {
    const idle = this.#idle.pop()
    if (idle !== undefined) return idle
    const process = new CellProcess(this.#main)
    this.#all.push(process)
    return process
  }
}
