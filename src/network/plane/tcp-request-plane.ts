/**
 * Requests to workers over TCP: one connection per worker, kept up for as long as the worker is known.
 *
 * Discovery says who is there (`workerJoined`, `workerLeft`); this class connects, comes back, and gives up only when
 * the worker has left.
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
  /** Tokens and chunks per stream that a worker may send before we say that we took them. */
  readonly streamWindowItems?: number
  readonly unsentBytesMax?: number
}

type DialledWorker = Pick<WorkerCard, 'workerId' | 'host' | 'port'>

const DEFAULTS = {
  software: '',
  connectTimeoutMs: 5_000,
  backoffMsMin: 50,
  backoffMsMax: 2_000,
  streamWindowItems: 4_096,
  unsentBytesMax: 256 * 1024 * 1024,
} as const

export class TcpRequestPlane implements RequestPlane {
  readonly #options: TcpRequestPlaneOptions
  readonly #links = new Map<WorkerId, WorkerLink>()
  /** Of workers that have signed off and still answer what they were asked before. */
  readonly #retired = new Set<WorkerLink>()
  /** On the way to workers that are to be told that they are not wanted. */
  readonly #turnedAway = new Map<WorkerId, WorkerLink>()

  constructor(options: TcpRequestPlaneOptions = {}) {
    this.#options = options
  }

  /**
   * Also for the changed card of a known worker: a new address means a new connection; else the worker's blocks are
   * told again, because with another mode or model another router is told of them.
   */
  workerJoined(card: DialledWorker): void {
    const { workerId, host, port } = card
    this.#forgetTurnedAway(workerId)
    const known = this.#links.get(workerId)
    if (known && known.host === host && known.port === port) {
      known.askSnapshot()
      return
    }
    known?.close(new BatonError('transport.disconnected', 'the worker has moved'))
    this.#links.set(workerId, this.#dial(card))
  }

  /** The worker is notified why it gets nothing from here, and then the connection closes. */
  workerRefused(card: DialledWorker, reason: BatonError): void {
    const link = this.#links.get(card.workerId) ?? this.#dial(card)
    this.#links.delete(card.workerId)
    link.turnAway(reason)
    this.#turnedAway.get(card.workerId)?.close(reason)
    if (link.state !== 'closed') this.#turnedAway.set(card.workerId, link)
  }

  /**
   * Reason `closed`: the worker has signed off and finishes what it has; its live replies go on. Any other reason
   * means that it is dead, and they end now.
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
    if (link.state === 'closed') return
    for (const retired of this.#retired)
      if (retired.state === 'closed') this.#retired.delete(retired)
    this.#retired.add(link)
  }

  /** True when a request to it would go out at once. */
  isConnected(workerId: WorkerId): boolean {
    return this.#links.get(workerId)?.state === 'ready'
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
  }

  /** To the other frontends, over so many workers that both are connected to; how many took it. */
  sendPeer(payload: Uint8Array, over: number): number {
    let sent = 0
    for (const link of this.#links.values()) {
      if (sent >= over) break
      if (link.sendPeer(payload)) sent += 1
    }
    return sent
  }

  async close(): Promise<void> {
    const reason = new BatonError('transport.disconnected', 'this frontend is closing')
    const links = [this.#links.values(), this.#retired.values(), this.#turnedAway.values()]
    for (const link of links.flatMap((some) => [...some])) link.close(reason)
    this.#links.clear()
    this.#turnedAway.clear()
    this.#retired.clear()
    await Promise.resolve()
  }

  #dial({ workerId, host, port }: DialledWorker): WorkerLink {
    return new WorkerLink({
      ...DEFAULTS,
      ...this.#options,
      workerId,
      host,
      port,
      reports: this.#options,
    })
  }

  #forgetTurnedAway(workerId: WorkerId): void {
    const link = this.#turnedAway.get(workerId)
    this.#turnedAway.delete(workerId)
    link?.close(new BatonError('transport.disconnected', 'the worker has changed its card'))
  }
}
