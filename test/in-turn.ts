/**
 * Runs several `baton` commands one after the other in one process, for tests of refused arguments that need no
 * process of their own.
 *
 * Starting a process takes about 0.2 s of CPU, most of it for loading code that the next one would load again.
 */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { withoutTestVariables } from './running-server.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
const RUNNER = fileURLToPath(new URL('in-turn-main.mjs', import.meta.url))

interface EndedInTurn {
  readonly exitCode: number
  /** stdout and stderr. */
  readonly printed: string
  readonly stdout: string
  readonly stderr: string
}

export class BatonsInTurn {
  #child: ChildProcess | null = null
  #last: Promise<unknown> = Promise.resolve()

  /** Rejects if the command ends the process. */
  run(
    args: readonly string[],
    variables: NodeJS.ProcessEnv = {},
    folder = process.cwd(),
  ): Promise<EndedInTurn> {
    const ended = this.#last.then(() => this.#run({ args, variables, folder }))
    this.#last = ended.catch(() => undefined)
    return ended
  }

  /**
   * Resolves with the exit code once the process has ended by itself; it does not end while a command has left
   * something open.
   */
  async stop(): Promise<number | null> {
    await this.#last
    const child = this.#child
    if (child === null || child.exitCode !== null) return child?.exitCode ?? 0
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
    child.disconnect()
    return ended
  }

  #run(command: object): Promise<EndedInTurn> {
    if (this.#child?.connected === false) throw new Error('the process of the commands has ended')
    this.#child ??= fork(RUNNER, [MAIN], {
      execArgv: [],
      env: withoutTestVariables(process.env),
    })
    const child = this.#child
    return new Promise((resolve, reject) => {
      const onExit = (code: number | null): void => {
        reject(new Error(`the command ended the process with ${code}`))
      }
      child.once('exit', onExit)
      child.once('message', (ended) => {
        child.off('exit', onExit)
        resolve(ended as EndedInTurn)
      })
      child.send(command)
    })
  }
}
