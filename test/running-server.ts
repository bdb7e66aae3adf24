/** Starts real `baton` processes for tests and benchmarks. */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { bundle, isBundleStale } from '../scripts/bundle.js'

// A benchmark that starts a server must not measure an outdated bundle.
if (isBundleStale()) await bundle()

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))

export interface RunningServer {
  readonly url: string
  readonly port: number
  readonly frontendPid: number
  readonly workerPids: readonly number[]
  readonly process: ChildProcess
  /** Everything printed so far on stdout and stderr. */
  readonly printed: () => string
  /** Sends SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>
}

interface Ended {
  readonly exitCode: number | null
  readonly printed: string
}

function spawnBaton(
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
  nodeArgs: readonly string[] = [],
): ChildProcess {
  return spawn(process.execPath, [...nodeArgs, MAIN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...withoutTestVariables(process.env), ...environment },
  })
}

/** `BATON_TEST_…` variables are for tests only; Baton refuses unknown variables. */
export function withoutTestVariables(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(environment).filter(([name]) => !name.startsWith('BATON_TEST_')),
  )
}

/** Runs a `baton` command until it ends. */
export function runBaton(
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
): Promise<Ended> {
  const child = spawnBaton(args, environment)
  const printed = collect(child)
  return new Promise((resolve) => {
    child.once('close', (exitCode) => resolve({ exitCode, printed: printed() }))
  })
}

export interface RunningBaton {
  readonly process: ChildProcess
  /** Runs a `baton` command; resolves with its exit code. */
  readonly ended: Promise<number | null>
  readonly printed: () => string
  untilPrinted(what: RegExp): Promise<void>
}

/**
 * Starts any long-running command; resolves once it has printed `ready`, rejects with its output if it ends before.
 */
export async function startBaton(
  args: readonly string[],
  ready: RegExp,
  environment: NodeJS.ProcessEnv = {},
): Promise<RunningBaton> {
  const child = spawnBaton(args, environment)
  const printed = collect(child)
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', (code) => resolve(code))
  })
  const untilPrinted = (what: RegExp): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (what.test(printed())) resolve()
      }
      child.stdout?.on('data', look)
      child.once('close', (code) => reject(new Error(`baton ended with ${code}: ${printed()}`)))
      look()
    })
  await untilPrinted(ready)
  return { process: child, ended, printed, untilPrinted }
}

/** `baton serve` on a free port; rejects with its output if it does not start. */
export async function startServer(
  args: readonly string[],
  environment: NodeJS.ProcessEnv = {},
  nodeArgs: readonly string[] = [],
): Promise<RunningServer> {
  const child = spawnBaton(['serve', '--port', '0', ...args], environment, nodeArgs)
  const printed = collect(child)
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', (code) => resolve(code))
  })
  await untilReady(child, printed)
  const [, scheme, digits] = /frontend\s+(https?):\/\/127\.0\.0\.1:(\d+)/.exec(printed()) ?? []
  const port = Number(digits)
  const workerPids = [...printed().matchAll(/worker .*?pid (\d+)/g)].map((match) =>
    Number(match[1]),
  )
  return {
    url: `${scheme}://127.0.0.1:${port}`,
    port,
    frontendPid: child.pid ?? 0,
    workerPids: workerPids.filter((pid) => pid !== child.pid),
    process: child,
    printed,
    stop: () => {
      child.kill('SIGTERM')
      return ended
    },
  }
}

function collect(child: ChildProcess): () => string {
  let text = ''
  const take = (bytes: Buffer): void => {
    text += bytes.toString()
  }
  child.stdout?.on('data', take)
  child.stderr?.on('data', take)
  return () => text
}

function untilReady(child: ChildProcess, printed: () => string): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = (): void => {
      if (printed().includes('Ctrl-C drains')) resolve()
    }
    child.stdout?.on('data', look)
    child.once('close', (code) => reject(new Error(`baton serve ended with ${code}: ${printed()}`)))
  })
}

/** Whether a process with this id exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
