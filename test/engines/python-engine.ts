/** Engines that are Python programs (vLLM, SGLang): they start slowly and have several processes each. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { openLog } from './process-logs.ts'
import { ask, realServer } from './real-engine.ts'
import type { RealServer } from './real-engine.ts'

export interface PythonEngine {
  readonly name: string
  /** One side of a hand-over. */
  readonly role?: 'prefill' | 'decode'
  /** Where the engine is installed; its working folder. */
  readonly folder: string
  readonly port: number
  /** The program, relative to `folder`, and its arguments. */
  readonly command: readonly [string, ...string[]]
  readonly env: Readonly<Record<string, string>>
}

/** Resolves when `/health` answers 200. */
export async function startPythonEngine(engine: PythonEngine): Promise<RealServer> {
  const { name, role, folder, port, command, env } = engine
  const [program, ...args] = command
  const log = openLog(role === undefined ? name : `${name}-${role}`)
  const child = spawn(path.join(folder, program), args, {
    stdio: ['ignore', log.descriptor, log.descriptor],
    cwd: folder,
    // A separate process group, because the engine is a child process of this one.
    detached: true,
    env: {
      ...process.env,
      PATH: `${path.join(folder, 'venv/bin')}:${process.env['PATH'] ?? ''}`,
      OMP_NUM_THREADS: '1',
      DO_NOT_TRACK: '1',
      HF_HUB_OFFLINE: '1',
      UCX_TLS: 'tcp,self,sm',
      ...env,
    },
  })
  const server = realServer(child, port, log)
  const kill = async (): Promise<void> => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch {
      // The process has already exited.
    }
    await server.kill()
  }
  try {
    await untilUp(name, server)
  } catch (error) {
    await kill()
    throw error
  }
  return { ...server, kill }
}

async function untilUp(name: string, server: RealServer): Promise<void> {
  const endMs = Date.now() + 600_000
  for (;;) {
    const isUp = await ask(`${server.url}/health`).then(
      ({ status }) => status === 200,
      () => false,
    )
    if (isUp) return
    // The server takes additional ports, and stays without its engine if another process has one of them.
    const isLost = /Address already in use/.test(server.printed())
    if (isLost || server.process.exitCode !== null) {
      throw new Error(`${name} ended: ${server.printed()}`)
    }
    if (Date.now() > endMs) {
      throw new Error(`${name} is not up after ten minutes: ${server.printed()}`)
    }
    await new Promise((resolve) => {
      setTimeout(resolve, 500)
    })
  }
}

/** The sum of a metric over its labels; 0 if the metric does not exist. */
export async function metricOf(server: RealServer, name: string): Promise<number> {
  const { text } = await ask(`${server.url}/metrics`)
  return text
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
