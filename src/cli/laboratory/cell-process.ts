/**
 * A process that runs simulation cells one after the other, because code that the first cell has warmed up runs
 * the next ones faster.
 *
 * Each line of its standard input is a cell (JSON), each line of its standard output a run. A cell that cannot
 * be run ends the process with the reason on standard error.
 */
import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { BatonError } from '../../base/index.ts'
import type { LabRun } from '../../sim/index.ts'
import { runCell } from './lab-cell.ts'
import type { LabCell } from './lab-cell.ts'

/** The name of the hidden command. */
const CELL_COMMAND = 'lab-cell'
/**
 * There is one process per core, so the garbage collector's helper threads would only take a core from another
 * process.
 */
const NODE_FLAGS = ['--single-threaded-gc', '--max-semi-space-size=32']

interface Waiting {
  readonly resolve: (run: LabRun) => void
  readonly reject: (error: unknown) => void
}

export class CellProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  #waiting: Waiting | null = null
  #failure: unknown = null
  #errors = ''

  /** `main`: the program that this process runs. */
  constructor(main: string) {
    const args = [...process.execArgv, ...NODE_FLAGS, main, CELL_COMMAND]
    this.#child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] })
    const { stdin, stdout, stderr } = this.#child
    stdin.on('error', () => undefined)
    stderr.setEncoding('utf8').on('data', (part: string) => (this.#errors += part))
    createInterface({ input: stdout }).on('line', (line) => {
      this.#waiting?.resolve(JSON.parse(line) as LabRun)
      this.#waiting = null
    })
    this.#child.on('error', (error) => this.#fail(error))
    this.#child.on('close', (code, signal) => {
      const text = this.#errors.trim().replace(/^baton: /, '')
      this.#fail(
        new BatonError(
          'config.invalid',
          text || `a process of the laboratory ended with ${code ?? signal}`,
        ),
      )
    })
  }

  /** Runs one cell; call it again only after it has resolved. */
  run(cell: LabCell): Promise<LabRun> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== null) {
        reject(this.#failure)
        return
      }
      this.#waiting = { resolve, reject }
      this.#child.stdin.write(`${JSON.stringify(cell)}\n`)
    })
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  #fail(error: unknown): void {
    this.#failure ??= error
    this.#waiting?.reject(this.#failure)
    this.#waiting = null
  }
}

/** The child's side: runs the cells of standard input. */
export async function runCellsOfInput(): Promise<number> {
  // The parent keeps it open as long as it lives: without it nobody wants the result.
  process.stdin.once('end', () => process.exit())
  for await (const line of createInterface({ input: process.stdin })) {
    const run = await runCell(JSON.parse(line) as LabCell)
    await new Promise<void>((resolve) =>
      process.stdout.write(`${JSON.stringify(run)}\n`, () => resolve()),
    )
  }
  return 0
}
