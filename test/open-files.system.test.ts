/** A frontend that may open few files and connections (`ulimit -n`). */
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startBaton } from './running-server.ts'
import { until } from './until.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
const OPEN_FILES = 64
const SIM = ['--engine', 'sim', '--sim-speedup', '0', '--grace-seconds', '0']

function fleetFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'baton-open-files-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function startWorker(folder: string): Promise<void> {
  const baton = await startBaton(['worker', '--discovery', `file:${folder}`, ...SIM], /ready/)
  onTestFinished(async () => {
    baton.process.kill('SIGKILL')
    await baton.ended
  })
}

/** Only a shell can lower the limit of a process. */
async function startFrontend(folder: string) {
  const args = ['frontend', '--discovery', `file:${folder}`, '--port', '0', '--log-level', 'info']
  const command = `ulimit -n ${OPEN_FILES}; exec "$@"`
  const child = spawn('sh', ['-c', command, 'sh', process.execPath, MAIN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => (printed += bytes.toString()))
  await until('the port', () => /http:\/\/[\d.]+:\d+/.test(printed))
  return { url: /http:\/\/[\d.]+:\d+/.exec(printed)?.[0] ?? '', printed: () => printed }
}

async function complete(url: string): Promise<number | null> {
  try {
    const reply = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close' },
      body: JSON.stringify({ prompt: 'Once', max_tokens: 2 }),
    })
    await reply.text()
    return reply.status
  } catch {
    return null
  }
}

describe.skipIf(process.platform !== 'linux')('a frontend that may open 64 files', () => {
  it('300 idle connections - are closed above a limit, which the log says; workers still join; it serves afterwards', async () => {
    const folder = fleetFolder()
    await startWorker(folder)
    const { url, printed } = await startFrontend(folder)
    await until('served', async () => (await complete(url)) === 200)
    let closed = 0
    const idle = Array.from({ length: 300 }, (): Socket => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.on('error', () => undefined)
      return socket.on('close', () => (closed += 1))
    })
    await until('refused', () => closed > 200)
    await until('the reason', () => printed().includes('(ulimit -n)'))
    await startWorker(folder)
    await until('joined', () => printed().match(/"worker connected"/g)?.length === 2)
    expect(printed()).not.toContain('EMFILE')
    for (const socket of idle) socket.destroy()
    await until('served again', async () => (await complete(url)) === 200)
  })

  it('more workers than it can connect to - discovery says what is missing, and known workers stay in use', async () => {
    const folder = fleetFolder()
    await startWorker(folder)
    const { url, printed } = await startFrontend(folder)
    await until('served', async () => (await complete(url)) === 200)
    const silent = createServer(() => undefined)
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void silent.close())
    const { port } = silent.address() as AddressInfo
    const [name = ''] = readdirSync(folder)
    const entry = JSON.parse(readFileSync(join(folder, name), 'utf8'))
    for (let id = 1; id <= 2 * OPEN_FILES; id++) {
      const card = { ...entry.card, workerId: String(id), port }
      writeFileSync(join(folder, `${id}.json`), JSON.stringify({ ...entry, card }))
    }
    await until('the reason', () => /cannot be read: EMFILE.*\(ulimit -n\)/.test(printed()))
    expect(printed()).toContain('discovery is unreachable; known workers stay in use')
    expect(printed()).not.toMatch(/worker is gone/)
  })
})
