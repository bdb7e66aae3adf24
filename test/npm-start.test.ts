import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isAlive, withoutTestVariables } from './running-server.ts'
import { until } from './until.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** As in a terminal: npm and all processes that it starts are one process group. */
function npm(args: readonly string[]) {
  const child = spawn('npm', args, {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...withoutTestVariables(process.env), BATON_PORT: '0', BATON_ENGINE: 'sim' },
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
  ] as const)('%s - drains, exits with 0, leaves no process', async (_what, signal, group) => {
    const started = npm(['start'])
    await until('the banner', () => started.printed().includes('Ctrl-C drains'))
    const pids = [...started.printed().matchAll(/pid (\d+)/g)].map((match) => Number(match[1]))
    expect(pids).toHaveLength(3)
    process.kill(started.pid * group, signal)
    expect(await started.ended).toBe(0)
    // A log line may come between the two, and npm may print the last line.
    expect(started.printed()).toMatch(/: draining \(repeat to stop at once\)\n(.*\n)*ended\n/)
    expect(started.printed()).not.toContain('cannot be reached')
    expect(pids.filter(isAlive)).toEqual([])
  })
})

describe('npx baton serve', () => {
  it('SIGTERM that only kills the shell in between - the server drains and no process is left', async () => {
    const main = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
    // Like npm: a shell that waits for the program. The program is not its last command, because some shells
    // replace themselves by that one.
    const script = `"${process.execPath}" "${main}" serve --engine sim --port 0; exit $?`
    const shell = spawn('sh', ['-c', script], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...withoutTestVariables(process.env), npm_config_user_agent: 'npm/11.0.0' },
    })
    let printed = ''
    shell.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    shell.stderr.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    const closed = new Promise((resolve) => shell.once('close', resolve))
    await until('the banner', () => printed.includes('Ctrl-C drains'))
    const pids = [...printed.matchAll(/pid (\d+)/g)].map((match) => Number(match[1]))
    expect(pids.length).toBeGreaterThan(0)
    onTestFinished(() => {
      for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGKILL')
    })
    shell.kill('SIGTERM')
    await closed
    expect(printed).toContain('ended\n')
    await until('the end of all processes', () => pids.every((pid) => !isAlive(pid)))
  })
})
