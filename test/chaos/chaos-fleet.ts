/**
 * The processes of one chaos run: a nats-server behind two proxies, frontends, and workers, each behind its own
 * proxy. A killed process is restarted. All files are in one folder per run.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FaultyProxy } from '../faulty-proxy.ts'
import { freePort } from '../free-port.ts'
import { NatsServer } from '../nats/nats-server.ts'
import { startBaton } from '../running-server.ts'
import type { RunningBaton } from '../running-server.ts'

export type Kind = 'frontend' | 'decode' | 'prefill'

/** One place in the fleet; the process that runs in it changes. */
export interface Member {
  readonly kind: Kind
  baton: RunningBaton
  url: string
  /** The proxy between the frontends and a worker; null for a frontend. */
  readonly link: WorkerLink | null
  /** False from just before the process is killed until its successor is ready. */
  isUp: boolean
}

interface WorkerLink {
  readonly workerPort: number
  readonly proxy: FaultyProxy
}

const COUNTS = { decode: 4, prefill: 2, frontend: 3 } as const
/** Reserves an address per worker, so that no outgoing connection takes its port while the worker is down. */
const WORKERS_HOST = '127.0.0.2'
const START_ATTEMPTS = 5
const SIM = ['--engine', 'sim', '--sim-speedup', '1', '--grace-seconds', '0']

export class ChaosFleet {
  readonly members: Member[] = []
  readonly temporary = mkdtempSync(join(tmpdir(), 'baton-chaos-'))
  /** Number of failed starts; should be 0. */
  readonly startFaults: string[] = []
  readonly #killed = new WeakSet<RunningBaton>()
  readonly #starting = new Set<Promise<void>>()

  readonly nats: NatsServer
  readonly workersProxy: FaultyProxy
  readonly frontendsProxy: FaultyProxy

  private constructor(nats: NatsServer, workersProxy: FaultyProxy, frontendsProxy: FaultyProxy) {
    this.nats = nats
    this.workersProxy = workersProxy
    this.frontendsProxy = frontendsProxy
  }

  static async start(): Promise<ChaosFleet> {
    const nats = await NatsServer.start()
    const proxies = [await FaultyProxy.start(nats.port), await FaultyProxy.start(nats.port)]
    const [workersProxy, frontendsProxy] = proxies as [FaultyProxy, FaultyProxy]
    const fleet = new ChaosFleet(nats, workersProxy, frontendsProxy)
    for (const kind of ['decode', 'prefill', 'frontend'] as const) {
      const places = Array.from({ length: COUNTS[kind] }, async () => {
        const link = kind === 'frontend' ? null : await openLink()
        const baton = await fleet.#spawn(kind, link)
        return { kind, baton, url: urlOf(baton), link, isUp: true }
      })
      fleet.members.push(...(await Promise.all(places)))
    }
    return fleet
  }

  of(...kinds: readonly Kind[]): readonly Member[] {
    return this.members.filter(({ kind, isUp }) => isUp && kinds.includes(kind))
  }

  /** All places of these kinds in a constant order. */
  places(...kinds: readonly Kind[]): readonly Member[] {
    return this.members.filter(({ kind }) => kinds.includes(kind))
  }

  /** Sends SIGKILL; a successor is started. */
  kill(member: Member): void {
    member.isUp = false
    this.#killed.add(member.baton)
    member.baton.process.kill('SIGKILL')
    const started = this.#replace(member).finally(() => this.#starting.delete(started))
    this.#starting.add(started)
  }

  /** Whether the process was killed; one that was only stopped for a while was not. */
  wasKilled(baton: RunningBaton): boolean {
    return this.#killed.has(baton)
  }

  /** Resolves when no process is starting. */
  async settled(): Promise<void> {
    await Promise.all(this.#starting)
  }

  /** Sends SIGTERM to all processes of these kinds; returns their exit codes. */
  async stop(...kinds: readonly Kind[]): Promise<readonly (number | null)[]> {
    const leaving = this.of(...kinds)
    for (const member of leaving) {
      member.isUp = false
      member.baton.process.kill('SIGTERM')
    }
    return await Promise.all(leaving.map(({ baton }) => baton.ended))
  }

  /** Files in the folder of this run. */
  remains(): readonly string[] {
    return readdirSync(this.temporary).map((name) => join(this.temporary, name))
  }

  /** Ends all processes and deletes the folder, whatever happened before. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#starting)
    for (const { baton } of this.members) baton.process.kill('SIGKILL')
    await Promise.all(this.members.map(({ baton }) => baton.ended))
    const links = this.members.map(({ link }) => link?.proxy.close())
    await Promise.all([this.workersProxy.close(), this.frontendsProxy.close(), ...links])
    await this.nats.close()
    rmSync(this.temporary, { recursive: true, force: true })
  }

  /** Like a supervisor: repeats a failed start. */
  async #replace(member: Member): Promise<void> {
    await member.baton.ended
    for (let attempt = 1; ; attempt++) {
      try {
        member.baton = await this.#spawn(member.kind, member.link)
        member.url = urlOf(member.baton)
        member.isUp = true
        return
      } catch (error) {
        this.startFaults.push(`${member.kind}: ${String(error).slice(0, 300)}`)
        if (attempt === START_ATTEMPTS) return
      }
    }
  }

  async #spawn(kind: Kind, link: WorkerLink | null): Promise<RunningBaton> {
    const proxy = kind === 'frontend' ? this.frontendsProxy : this.workersProxy
    const environment = {
      BATON_DISCOVERY: `nats://127.0.0.1:${proxy.port}`,
      TMPDIR: this.temporary,
    }
    if (link === null) {
      return await startBaton(['frontend', '--port', '0'], /http:\/\/[\d.]+:\d+/, environment)
    }
    const { workerPort, proxy: between } = link
    const reached = ['--worker-host', WORKERS_HOST, '--worker-port', String(workerPort)]
    reached.push('--worker-advertise', `${WORKERS_HOST}:${between.port}`)
    return await startBaton(['worker', ...SIM, ...reached, '--mode', kind], /ready/, environment)
  }
}

function urlOf(baton: RunningBaton): string {
  return /http:\/\/[\d.]+:\d+/.exec(baton.printed())?.[0] ?? ''
}

async function openLink(): Promise<WorkerLink> {
  const workerPort = await freePort()
  return { workerPort, proxy: await FaultyProxy.start(workerPort, WORKERS_HOST) }
}
