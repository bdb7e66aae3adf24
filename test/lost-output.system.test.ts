/** Standard output that cannot be written: its disk is full, or its reader has ended. And files on a full disk. */
import { spawn } from 'node:child_process'
import type { ChildProcess, StdioOptions } from 'node:child_process'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'
import { until } from './until.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
/** Every write to it fails with ENOSPC. */
const FULL = '/dev/full'

const folder = mkdtempSync(join(tmpdir(), 'baton-lost-output-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let server: RunningServer
beforeAll(async () => {
  server = await startServer(['--engine', 'sim', '--sim-speedup', '0', '--aggregated', '1'])
})
afterAll(async () => void (await server.stop()))

interface Run {
  readonly child: ChildProcess
  readonly stderr: () => string
  readonly ended: Promise<number | null>
}

function started(command: readonly string[], stdio: StdioOptions): Run {
  const [program = '', ...args] = command
  const child = spawn(program, args, { stdio })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stderr = ''
  child.stderr?.on('data', (bytes: Buffer) => (stderr += bytes.toString()))
  return {
    child,
    stderr: () => stderr,
    ended: new Promise((resolve) => child.once('close', resolve)),
  }
}

/** Standard output is the file at `path`. */
function intoFile(command: readonly string[], path: string): Run {
  const file = openSync(path, 'w')
  const run = started(command, ['ignore', file, 'pipe'])
  closeSync(file)
  return run
}

const baton = (command: string): string[] => [process.execPath, MAIN, ...command.split(' ')]

describe.skipIf(!existsSync(FULL))('standard output on a full disk', () => {
  it.each([
    'config',
    'config --json',
    '--help',
    'workload random --requests 3',
    `keys add --tenant a --file ${folder}/keys.json`,
    'replay workload:random,requests=3',
    'replay workload:random,requests=3 --json -',
    'doctor --json --url SERVER',
    'top --once --url SERVER',
    'top --url SERVER',
    'roll --url SERVER',
  ])('baton %s - fails and says so', async (command) => {
    const { ended, stderr } = intoFile(baton(command.replace('SERVER', server.url)), FULL)
    expect(await ended).toBe(1)
    expect(stderr()).toMatch(/^baton: the output could not be written \(ENOSPC\): [^\n]*\n$/m)
  })

  it('a disk that becomes full - output of which a part is missing is no success', async () => {
    const path = join(folder, 'config.json')
    // In blocks of 512 or 1,024 bytes, by shell.
    const limited = ['sh', '-c', 'ulimit -f 1; exec "$@"', 'sh', ...baton('config --json')]
    const { ended, stderr } = intoFile(limited, path)
    expect(await ended).toBe(1)
    expect(stderr()).toMatch(/^baton: the output could not be written \(EFBIG\)/)
    expect(readFileSync(path, 'utf8')).toMatch(/^\[/)
  })

  it.each(['workload random --requests 300 --out', 'replay workload:random,requests=3 --json'])(
    'baton %s <file> - the error names the file',
    async (command) => {
      const { ended, stderr } = started(baton(`${command} ${FULL}`), ['ignore', 'ignore', 'pipe'])
      expect([await ended, stderr()]).toEqual([
        1,
        `baton: ${FULL} cannot be written (ENOSPC): give another file\n`,
      ])
    },
  )

  it('a server - goes on', async () => {
    const port = await freePort()
    const command = `serve --engine sim --aggregated 1 --port ${port}`
    const { child, ended, stderr } = intoFile(baton(command), FULL)
    const live = (): Promise<boolean> =>
      fetch(`http://127.0.0.1:${port}/v1/models`).then(
        async (reply) => (await reply.text()).includes('storyteller'),
        () => false,
      )
    await until('it serves', live)
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    expect(stderr()).not.toContain('output')
  })
})

describe.skipIf(process.platform === 'win32')('a reader that ends', () => {
  it.each(['top --url SERVER', 'top --json --url SERVER', 'chat --url SERVER'])(
    'baton %s - ends too',
    async (command) => {
      const args = baton(command.replace('SERVER', server.url))
      const { child, ended, stderr } = started(args, ['pipe', 'pipe', 'pipe'])
      child.stdout?.once('data', () => child.stdout?.destroy())
      // Standard input stays open.
      child.stdin?.on('error', () => undefined).write('hello\nhow are you\n')
      expect([await ended, stderr()]).toEqual([0, ''])
    },
  )

  it('a command whose first lines are enough - succeeds', async () => {
    const { child, ended, stderr } = started(baton('workload random --requests 30000'), [
      'ignore',
      'pipe',
      'pipe',
    ])
    child.stdout?.once('data', () => child.stdout?.destroy())
    expect(await ended).toBe(0)
    expect(stderr()).toMatch(/^30000 requests[^\n]*\n$/)
  })
})
