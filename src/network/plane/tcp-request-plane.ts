/**
 * Sends requests to workers over TCP: one connection per worker, kept for as long as the worker is known.
 *
 * Discovery reports workers (`workerJoined`, `workerLeft`); this class connects, reconnects, and stops only when the
 * worker has left.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type {
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestPlane,
  WorkerCard,
} from '../../request/index.ts'
import type { FleetReports } from './plane-reports.ts'
import { WorkerLink } from './worker-link.ts'
import { SharedTurns } from '../link/shared-turns.ts'
import type { WireTiming } from '../link/wire-socket.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface TcpRequestPlaneOptions extends FleetReports {
  readonly software?: string
  readonly secret?: string
  readonly tls?: WireTls
  readonly timing?: WireTiming
  readonly connectTimeoutMs?: number
  readonly backoffMsMin?: number
  readonly backoffMsMax?: number
  /** Tokens and chunks per stream that a worker may send before it gets more credit. */
  readonly streamWindowItems?: number
  readonly unsentBytesMax?: number
  /** False: requests and tokens have no checksums of Baton's (`src/wire/frame-sums.ts`). */
  readonly checksums?: boolean
}

type DialledWorker = Pick<WorkerCard, 'workerId' | 'host' | 'port'>

const DEFAULTS = {
  software: '',
  connectTimeoutMs: 5_000,
  backoffMsMin: 50,
  backoffMsMax: 2_000,
  streamWindowItems: 4_096,
  unsentBytesMax: 256 * 1024 * 1024,
  checksums: true,
} as const

export class TcpRequestPlane implements RequestPlane {
  readonly #options: TcpRequestPlaneOptions
  /** In which the KV events of all workers are applied. */
  readonly #turns = new SharedTurns()
  readonly #links = new Map<WorkerId, WorkerLink>()
  /** Connections to workers that have left or are refused now and still answer earlier requests. */
  readonly #retired = new Set<WorkerLink>()
  /** Connections to workers that are only told that they are refused. */
  readonly #turnedAway = new Map<WorkerId, WorkerLink>()

  constructor(options: TcpRequestPlaneOptions = {}) {
    this.#options = options
  }

  /**
   * Also called for the changed card of a known worker: a new address needs a new connection. Otherwise the worker
   * sends its blocks again, because a new mode or model belongs to another router.
   */
  workerJoined(card: DialledWorker): void {
    const { workerId, host, port } = card
    this.#forgetTurnedAway(workerId)
    const known = this.#links.get(workerId)
    if (known && known.host === host && known.port === port) {
      known.askSnapshot()
      return
    }
    known?.close(new BatonError('transport.disconnected', 'the worker has another address now'))
    this.#links.set(workerId, this.#dial(card))
  }

  /** Tells the worker why it gets no requests, when its running replies have ended, and closes the connection. */
  workerRefused(card: DialledWorker, reason: BatonError): void {
    const known = this.#links.get(card.workerId)
    const link = known ?? this.#dial(card)
    this.#links.delete(card.workerId)
    link.turnAway(reason)
    this.#turnedAway.get(card.workerId)?.close(reason)
    if (known?.state === 'ready') this.#keepRetired(known)
    else if (link.state !== 'closed') this.#turnedAway.set(card.workerId, link)
  }

  /**
   * Reason `closed`: the worker left in order and finishes its running replies. With any other reason it is dead,
   * and they end now.
   */
  workerLeft(workerId: WorkerId, reason: string): void {
    this.#forgetTurnedAway(workerId)
    const link = this.#links.get(workerId)
    if (link === undefined) return
    this.#links.delete(workerId)
    const text = `worker ${workerId} has left: ${reason}`
    if (reason !== 'closed') {
      link.close(new BatonError('transport.disconnected', text))
      return
    }
    link.retire(new BatonError('backend.worker_draining', text))
    this.#keepRetired(link)
  }

  /** True when a request to it would be sent at once. */
  isConnected(workerId: WorkerId): boolean {
    return this.#links.get(workerId)?.state === 'ready'
  }

  /** Resolves after `withinMs`: true if something of the worker has arrived meanwhile. */
  async answers(workerId: WorkerId, withinMs: number): Promise<boolean> {
    return (await this.#links.get(workerId)?.answers(withinMs)) ?? false
  }

  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle {
    const link = this.#links.get(workerId)
    if (link) return link.send(request, sink)
    const text = `worker ${workerId} is not known here`
    sink.onError(new BatonError('backend.worker_unavailable', text, { data: { workerId } }))
    return { cancel: () => undefined }
  }

  releaseKv(workerId: WorkerId, offerId: string): void {
    this.#links.get(workerId)?.releaseKv(offerId)
    for (const link of this.#retired) if (link.workerId === workerId) link.releaseKv(offerId)
  }

  /** Sends a message to the other frontends over up to `over` workers; returns how many accepted it. */
  sendPeer(payload: Uint8Array, over: number): number {
    let sent = 0
    for (const link of this.#links.values()) {
      if (sent >= over) break
      if (link.sendPeer(payload)) sent += 1
    }
    return sent
  }

  async close(): Promise<void> {
    const reason = new BatonError('transport.disconnected', 'this frontend is shutting down')
    const links = [this.#links.values(), this.#retired.values(), this.#turnedAway.values()]
    for (const link of links.flatMap((some) => [...some])) link.close(reason)
    this.#links.clear()
    this.#turnedAway.clear()
    this.#retired.clear()
    await Promise.resolve()
  }

  #keepRetired(link: WorkerLink): void {
    for (const retired of this.#retired)
      if (retired.state === 'closed') this.#retired.delete(retired)
    if (link.state !== 'closed') this.#retired.add(link)
  }

  #dial({ workerId, host, port }: DialledWorker): WorkerLink {
    return new WorkerLink({
      ...DEFAULTS,
      ...this.#options,
      workerId,
      host,
      port,
      reports: this.#options,
      turns: this.#turns,
    })
  }

  #forgetTurnedAway(workerId: WorkerId): void {
    const link = this.#turnedAway.get(workerId)
    this.#turnedAway.delete(workerId)
    link?.close(new BatonError('transport.disconnected', 'the card of the worker has changed'))
  }
}
