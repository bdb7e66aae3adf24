import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { BatonError } from '../src/base/index.ts'
import { FileDiscovery } from '../src/discovery/index.ts'
import { TcpRequestPlane } from '../src/network/index.ts'
import type { WorkerExitReport, WorkerReport } from '../src/host/index.ts'
import type { Chunk, GenerateRequest, WorkerCard } from '../src/request/index.ts'
import { until } from './until.ts'

const DIST = fileURLToPath(new URL('../dist/', import.meta.url))
const SOURCE = fileURLToPath(new URL('./fixtures/worker-process.ts', import.meta.url))

let built = ''

// Bundled once: loading the sources in each process would take longer than the process lives.
beforeAll(async () => {
  // Inside the project folder, so that packages outside the bundle are found.
  built = await mkdtemp(join(DIST, 'worker-bundle-'))
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  const { optionalDependencies, peerDependencies } = JSON.parse(manifest) as Record<string, object>
  const bundle = await rolldown({
    input: SOURCE,
    platform: 'node',
    external: Object.keys({ ...optionalDependencies, ...peerDependencies }),
    treeshake: { moduleSideEffects: false },
  })
  await bundle.write({ dir: built, entryFileNames: '[name].mjs', chunkFileNames: '[name].mjs' })
  await bundle.close()
})

afterAll(() => rm(built, { recursive: true, force: true }))

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

interface Started {
  readonly child: ChildProcess
  readonly report: Promise<WorkerReport>
  /** The worker's report of its shutdown stages, as lines of 'stage result'. */
  readonly stages: () => readonly string[]
  /** Exit code, or the signal that ended the process. */
  readonly ended: Promise<number | string>
}

async function fleetFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'baton-worker-'))
  ends.push(() => rm(folder, { recursive: true, force: true }))
  return folder
}

function startWorker(
  folder: string,
  options: object = {},
  channel: 'ipc' | 'stdout' = 'ipc',
): Started {
  const args = [join(built, 'worker-process.mjs'), JSON.stringify({ folder, ...options })]
  const stdio = ['ignore', 'pipe', 'inherit', ...(channel === 'ipc' ? ['ipc' as const] : [])]
  const child = spawn(process.execPath, args, { stdio: stdio as 'pipe'[] })
  ends.push(() => child.kill('SIGKILL'))
  const ended = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? signal ?? 'unknown'))
  })
  let goodbye: WorkerExitReport | null = null
  const report = new Promise<WorkerReport>((resolve, reject) => {
    void ended.then((how) => reject(new Error(`the worker ended before it said anything: ${how}`)))
    const hear = (message: unknown): void => {
      const said = message as WorkerReport | WorkerExitReport
      if (said.kind === 'ended') goodbye = said
      else resolve(said)
    }
    child.on('message', hear)
    child.stdout?.on('data', (bytes: Buffer) => hear(JSON.parse(String(bytes))))
  })
  const stages = (): readonly string[] =>
    goodbye?.stages.map(({ stage, reason }) => `${stage} ${reason}`) ?? []
  return { child, report, stages, ended }
}

/** A frontend's view of the fleet: workers join and leave, requests are sent. */
class View {
  readonly cards = new Map<string, WorkerCard>()
  readonly left: string[] = []
  readonly plane = new TcpRequestPlane()

  static async open(folder: string): Promise<View> {
    const view = new View()
    const discovery = new FileDiscovery({ folder, ttlMs: 3_000, pollMs: 50 })
    ends.push(async () => {
      await view.plane.close()
      await discovery.close()
    })
    await discovery.watch({
      joined: (card) => {
        view.cards.set(card.workerId, card)
        view.plane.workerJoined(card)
      },
      left: (workerId, reason) => {
        view.left.push(reason)
        view.plane.workerLeft(workerId, reason)
      },
    })
    return view
  }

  send(card: WorkerCard, change: Partial<GenerateRequest> = {}): Sent {
    const sent = new Sent()
    this.plane.send(card.workerId, { ...REQUEST, ...change }, sent)
    return sent
  }
}

const REQUEST: GenerateRequest = {
  requestId: 'a',
  model: 'sim',
  tokenIds: Uint32Array.of(10, 11, 12),
  sampling: {},
  stop: { maxTokens: 20 },
  output: {},
  eosTokenIds: [],
  routing: {},
}

class Sent {
  tokens = 0
  outcome = ''
  readonly ended: Promise<string>
  readonly firstToken: Promise<void>
  #end: (outcome: string) => void = () => undefined
  #onFirst: () => void = () => undefined

  constructor() {
    this.ended = new Promise((resolve) => (this.#end = resolve))
    this.firstToken = new Promise((resolve) => (this.#onFirst = resolve))
  }

  onToken(): void {
    this.tokens++
    this.#onFirst()
  }

  onChunk(chunk: Chunk): void {
    this.tokens += chunk.tokenIds.length
    this.#onFirst()
    if (chunk.finish !== undefined) this.#finish(chunk.finish)
  }

  onError(error: BatonError): void {
    this.#finish(error.code)
  }

  #finish(outcome: string): void {
    this.outcome = outcome
    this.#end(outcome)
  }
}

/** One worker and a frontend's view, connected. */
async function scene(
  options: object = {},
): Promise<{ worker: Started; view: View; card: WorkerCard }> {
  const folder = await fleetFolder()
  const worker = startWorker(folder, options)
  const view = await View.open(folder)
  await worker.report
  await until('joined', () => view.cards.size === 1)
  const card = [...view.cards.values()][0]
  if (card === undefined) throw new Error('no card')
  return { worker, view, card }
}

const hang = { simFault: { kind: 'hang', atToken: 1 } }
const slow = { simFault: { kind: 'slow', restMs: 100 } }

describe('worker process - startup', () => {
  it('ready - is reported over IPC, the worker serves, SIGTERM exits with 0 and removes its entry', async () => {
    const folder = await fleetFolder()
    const worker = startWorker(folder, { worker: { shutdown: { routerGraceMs: 100 } } })
    const view = await View.open(folder)
    const report = await worker.report
    if (report.kind !== 'ready') throw new Error(JSON.stringify(report))
    await until('joined', () => view.cards.has(report.workerId))
    const card = view.cards.get(report.workerId)
    if (card === undefined) throw new Error('no card')
    expect(card).toMatchObject({ port: report.port, pid: worker.child.pid })
    const sent = view.send(card)
    expect(await sent.ended).toBe('length')
    expect(sent.tokens).toBe(20)
    worker.child.kill('SIGTERM')
    expect(await worker.ended).toBe(0)
    expect(await readdir(folder)).toEqual([])
    await until('left', () => view.left.length === 1)
  })

  it('an engine that fails to start - is reported to the parent with its code, exit code 1', async () => {
    const folder = await fleetFolder()
    const worker = startWorker(folder, { sim: { failStart: 'model.load_failed' } })
    expect(await worker.report).toMatchObject({
      kind: 'failed',
      error: { code: 'model.load_failed' },
    })
    expect(await worker.ended).toBe(1)
    expect(await readdir(folder)).toEqual([])
  })

  it('a port in use - is reported to the parent, exit code 1', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    ends.push(() => other.close())
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const worker = startWorker(await fleetFolder(), { worker: { port } })
    expect(await worker.report).toMatchObject({
      kind: 'failed',
      error: { code: 'host.address_in_use' },
    })
    expect(await worker.ended).toBe(1)
  })

  it('a signal during engine startup - startup completes, then the process exits with 0 and was never registered', async () => {
    const folder = await fleetFolder()
    const worker = startWorker(folder, { sim: { startupMs: 300 }, tellsOfStart: true })
    expect(await worker.report).toEqual({ kind: 'starting' })
    worker.child.kill('SIGTERM')
    expect(await worker.ended).toBe(0)
    expect(await readdir(folder)).toEqual([])
  })

  it('without a parent - readiness is printed as a line of JSON', async () => {
    const shutdown = { routerGraceMs: 0 }
    const worker = startWorker(await fleetFolder(), { worker: { shutdown } }, 'stdout')
    expect(await worker.report).toMatchObject({ kind: 'ready' })
    worker.child.kill('SIGTERM')
    expect(await worker.ended).toBe(0)
    expect(worker.stages().at(-1)).toBe('cleanup completed')
  })
})

describe('worker process - shutdown', () => {
  it('SIGINT with requests in flight - they complete, although discovery has forgotten the worker', async () => {
    const { worker, view, card } = await scene({ worker: { shutdown: { routerGraceMs: 200 } } })
    // It takes three seconds, so that it still runs when the view has noticed.
    const sent = view.send(card, { extra: slow, stop: { maxTokens: 30 } })
    await sent.firstToken
    worker.child.kill('SIGINT')
    await until('left', () => view.left.length === 1)
    expect(view.left).toEqual(['closed'])
    expect(sent.outcome).toBe('')
    expect(await sent.ended).toBe('length')
    expect(sent.tokens).toBe(30)
    expect(await worker.ended).toBe(0)
    expect(worker.stages()).toEqual([
      'unregister completed',
      'router_grace completed',
      'stop_admission completed',
      'inflight completed',
      'kv_transfer skipped',
      'cleanup completed',
    ])
  })

  it('requests longer than the drain budget - end with engine_shutdown within the budget', async () => {
    const shutdown = { totalMs: 500, routerGraceMs: 50 }
    const { worker, view, card } = await scene({ worker: { shutdown } })
    const sent = view.send(card, { extra: hang })
    await sent.firstToken
    worker.child.kill('SIGTERM')
    expect(await sent.ended).toBe('backend.engine_shutdown')
    expect(await worker.ended).toBe(0)
    expect(worker.stages()).toContain('inflight timed_out')
  })

  it('a second signal - exits with 70 at once', async () => {
    const { worker, view, card } = await scene()
    const sent = view.send(card, { extra: hang })
    await sent.firstToken
    const firstAtMs = performance.now()
    worker.child.kill('SIGTERM')
    // Within 500 ms it counts as the same signal: npm also forwards the one of the terminal.
    const more = setInterval(() => worker.child.kill('SIGINT'), 20)
    onTestFinished(() => clearInterval(more))
    await until('draining', () => view.left.length === 1)
    expect(await worker.ended).toBe(70)
    clearInterval(more)
    expect(performance.now() - firstAtMs).toBeGreaterThan(500)
    expect(await sent.ended).toMatch(/^transport\./)
  })

  it('a shutdown that exceeds its budget - exits with 70', async () => {
    const shutdown = { totalMs: 200, routerGraceMs: 0, forceExitAfterMs: 200 }
    const { worker, view } = await scene({ worker: { shutdown }, hangsInCleanup: true })
    worker.child.kill('SIGTERM')
    expect(await worker.ended).toBe(70)
    await until('left', () => view.left.length === 1)
  })

  it('the parent exits - the worker exits too', async () => {
    const { worker } = await scene()
    worker.child.disconnect()
    expect(await worker.ended).toBe(0)
  })

  it('killed - its requests end with a transport error and its entry is removed', async () => {
    const { worker, view, card } = await scene()
    const sent = view.send(card, { extra: hang })
    await sent.firstToken
    worker.child.kill('SIGKILL')
    expect(await sent.ended).toBe('transport.disconnected')
    await until('left', () => view.left.length === 1)
    expect(view.left).toEqual(['process-died'])
  })

  it('suspended - its entry expires and its requests end; resumed, it returns', async () => {
    const { worker, view, card } = await scene()
    const sent = view.send(card, { extra: hang })
    await sent.firstToken
    worker.child.kill('SIGSTOP')
    expect(await sent.ended).toBe('transport.disconnected')
    await until('left', () => view.left.length === 1)
    expect(view.left).toEqual(['expired'])
    view.cards.clear()
    worker.child.kill('SIGCONT')
    await until('joined again', () => view.cards.size === 1)
    expect(await view.send(card).ended).toBe('length')
  })

  it('a hung engine - its requests end with response_timeout and the process exits with 70', async () => {
    const { worker, view, card } = await scene({ worker: { limits: { stallTimeoutMs: 400 } } })
    const sent = view.send(card, { extra: hang })
    expect(await sent.ended).toBe('backend.response_timeout')
    expect(await worker.ended).toBe(70)
    expect(worker.stages()).toContain('cleanup completed')
    await until('left', () => view.left.length === 1)
  })
})
