import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isAlive } from './running-server.ts'
import { until } from './until.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** As in a terminal: npm and all that it starts are one process group. */
function npm(args: readonly string[]) {
  const child = spawn('npm', args, {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, BATON_PORT: '0', BATON_ENGINE: 'sim' },
  })
  let printed = ''
  const take = (bytes: Buffer): void => {
    printed += bytes.toString()
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  onTestFinished(() => {
    if (child.exitCode === null) process.kill(-(child.pid ?? 0), 'SIGKILL')
  })
  return { ended, printed: () => printed, pid: child.pid ?? 0 }
}

describe('npm start', () => {
  it.each([
    ['Ctrl-C, which the terminal sends to npm and to the server', 'SIGINT', -1],
    ['SIGTERM, which npm passes on', 'SIGTERM', 1],
  ] as const)('%s - drains, exits 0, leaves nothing running', async (_what, signal, group) => {
    const started = npm(['start'])
    await until('the banner', () => started.printed().includes('Ctrl-C drains'))
    const pids = [...started.printed().matchAll(/pid (\d+)/g)].map((match) => Number(match[1]))
    expect(pids).toHaveLength(3)
    process.kill(started.pid * group, signal)
    expect(await started.ended).toBe(0)
    expect(started.printed()).toContain('draining (again to end at once)\nended\n')
    expect(pids.filter(isAlive)).toEqual([])
  })
})
