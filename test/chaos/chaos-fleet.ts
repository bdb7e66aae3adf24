/**
 * The processes of one chaos run: a nats-server behind two proxies, frontends, and workers that frontends reach through a
 * proxy each; who is killed is started again. All that they leave on disk lies in a folder of this run.
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

/** One place in the fleet; the process in it changes. */
export interface Member {
  readonly kind: Kind
  baton: RunningBaton
  url: string
  /** Between the frontends and a worker; null: the place of a frontend. */
  readonly link: WorkerLink | null
  /** False from just before it is killed until its successor is ready. */
  isUp: boolean
}

interface WorkerLink {
  readonly workerPort: number
  readonly proxy: FaultyProxy
}

const COUNTS = { decode: 4, prefill: 2, frontend: 3 } as const
/** No outgoing connection takes a port of this address while the worker of a place is away. */
const WORKERS_HOST = '127.0.0.2'
const START_ATTEMPTS = 5
const SIM = ['--engine', 'sim', '--sim-speedup', '1', '--grace-seconds', '0']

export class ChaosFleet {
  readonly members: Member[] = []
  readonly temporary = mkdtempSync(join(tmpdir(), 'baton-chaos-'))
  /** Starts that failed; there should be none. */
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

  /** All places of these kinds, in an order that does not change. */
  places(...kinds: readonly Kind[]): readonly Member[] {
    return this.members.filter(({ kind }) => kinds.includes(kind))
  }

  /** SIGKILL; another takes the place. */
  kill(member: Member): void {
    member.isUp = false
    this.#killed.add(member.baton)
    member.baton.process.kill('SIGKILL')
    const started = this.#replace(member).finally(() => this.#starting.delete(started))
    this.#starting.add(started)
  }

  /** One that was only stopped for a while has lived. */
  wasKilled(baton: RunningBaton): boolean {
    return this.#killed.has(baton)
  }

  /** Until nobody is being started any more. */
  async settled(): Promise<void> {
    await Promise.all(this.#starting)
  }

  /** SIGTERM to all of these kinds; their exit codes. */
  async stop(...kinds: readonly Kind[]): Promise<readonly (number | null)[]> {
    const leaving = this.of(...kinds)
    for (const member of leaving) {
      member.isUp = false
      member.baton.process.kill('SIGTERM')
    }
    return await Promise.all(leaving.map(({ baton }) => baton.ended))
  }

  /** What lies in the folder of this run. */
  remains(): readonly string[] {
    return readdirSync(this.temporary).map((name) => join(this.temporary, name))
  }

  /** Whatever happened: no process, no folder is left. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#starting)
    for (const { baton } of this.members) baton.process.kill('SIGKILL')
    await Promise.all(this.members.map(({ baton }) => baton.ended))
    const links = this.members.map(({ link }) => link?.proxy.close())
    await Promise.all([this.workersProxy.close(), this.frontendsProxy.close(), ...links])
    await this.nats.close()
    rmSync(this.temporary, { recursive: true, force: true })
  }

  /** As a supervisor does: what does not come up is started again. */
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
