/**
 * A `baton serve` in processes of its own, started for a measurement and ended after it.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

export interface RunningServer {
  readonly port: number
  readonly frontendPid: number
  readonly workerPids: readonly number[]
  stop(): Promise<void>
}

/** Starts it on a free port; throws with what it printed when it does not come up. */
export async function startServer(args: readonly string[]): Promise<RunningServer> {
  const child = spawn(process.execPath, [MAIN, 'serve', '--port', '0', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const printed = await untilReady(child)
  const port = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(printed)?.[1])
  const workerPids = [...printed.matchAll(/worker .*?pid (\d+)/g)].map((match) => Number(match[1]))
  return {
    port,
    frontendPid: child.pid ?? 0,
    workerPids,
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', () => resolve())
        child.kill('SIGTERM')
      }),
  }
}

function untilReady(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let printed = ''
    const take = (bytes: Buffer): void => {
      printed += bytes.toString()
      if (printed.includes('curl ')) resolve(printed)
    }
    child.stdout?.on('data', take)
    child.stderr?.on('data', take)
    child.once('exit', (code) => reject(new Error(`baton serve ended with ${code}: ${printed}`)))
  })
}
