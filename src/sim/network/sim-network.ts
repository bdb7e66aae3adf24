/**
 * The simulated network: its connections and their faults.
 *
 * Owns: the reachable worker processes, the frontends' planes, KV transfers between workers. Both ends run the same
 * worker and router code as over TCP.
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type {
  GenerateRequest,
  ReplySink,
  RequestHandle,
  RequestPlane,
} from '../../request/index.ts'
import type { WorkerHandler, WorkerUplink } from '../../wire/index.ts'
import type { VirtualClock } from '../clock/virtual-clock.ts'
import type { NetworkDice } from './network-faults.ts'
import { SimLink } from './sim-link.ts'
import type { SimPeer, SimPlaneReports } from './sim-link.ts'

export class SimNetwork {
  readonly clock: VirtualClock
  readonly dice: NetworkDice
  readonly #peers = new Map<WorkerId, SimPeer>()
  readonly #planes: SimPlane[] = []

  constructor(clock: VirtualClock, dice: NetworkDice) {
    this.clock = clock
    this.dice = dice
  }

  peer(workerId: WorkerId): SimPeer | undefined {
    return this.#peers.get(workerId)
  }

  createPlane(reports: SimPlaneReports): SimPlane {
    const plane = new SimPlane(this, reports)
    this.#planes.push(plane)
    return plane
  }

  /** A worker process listens from now on. */
  listen(workerId: WorkerId, handler: WorkerHandler): WorkerUplink {
    const peer = { workerId, handler, isAlive: true, isDraining: false, partitionedUntilMs: 0 }
    this.#peers.set(workerId, peer)
    const toAll = (tell: (link: SimLink) => void): void => {
      for (const plane of this.#planes) {
        const link = plane.linkOf(workerId)
        if (link !== undefined) tell(link)
      }
    }
    return {
      publishKvEvents: (batch: KvEventBatch) => {
        if (handler.kvSnapshot !== undefined) toAll((link) => link.sendKvEvents(batch))
      },
      publishLoad: (report: LoadReport) => toAll((link) => link.sendLoad(report)),
      flush: () => undefined,
      drain: () => {
        peer.isDraining = true
      },
    }
  }

  /** The process is gone: its connections break, and nothing answers any more. */
  processDied(workerId: WorkerId): void {
    const peer = this.#peers.get(workerId)
    if (peer === undefined) return
    peer.isAlive = false
    this.breakConnections(workerId, 'the process died')
  }

  breakConnections(workerId: WorkerId, why = 'connection reset'): void {
    for (const plane of this.#planes) plane.linkOf(workerId)?.break(why)
  }

  partition(workerId: WorkerId, untilMs: number): void {
    const peer = this.#peers.get(workerId)
    if (peer === undefined) return
    peer.partitionedUntilMs = Math.max(peer.partitionedUntilMs, untilMs)
    for (const plane of this.#planes) plane.linkOf(workerId)?.partition(untilMs)
  }
}

/** A frontend's plane to the workers that discovery has reported. */
export class SimPlane implements RequestPlane {
  readonly #network: SimNetwork
  readonly #reports: SimPlaneReports
  readonly #links = new Map<WorkerId, SimLink>()

  constructor(network: SimNetwork, reports: SimPlaneReports) {
    this.#network = network
    this.#reports = reports
  }

  linkOf(workerId: WorkerId): SimLink | undefined {
    return this.#links.get(workerId)
  }

  get workerCount(): number {
    return this.#links.size
  }

  /** Replies that have not ended. */
  get liveReplies(): number {
    let count = 0
    for (const link of this.#links.values()) count += link.liveReplies
    return count
  }

  workerJoined(workerId: WorkerId): void {
    const peer = this.#network.peer(workerId)
    if (peer === undefined) return
    const known = this.#links.get(workerId)
    if (known !== undefined) {
      known.askSnapshot()
      return
    }
    const { clock, dice } = this.#network
    this.#links.set(workerId, new SimLink({ peer, clock, dice, reports: this.#reports }))
  }

  /** Reason `closed`: the worker has signed off and finishes its running replies. */
  workerLeft(workerId: WorkerId, reason: string): void {
    const link = this.#links.get(workerId)
    if (link === undefined) return
    this.#links.delete(workerId)
    if (reason === 'closed') link.retire()
    else link.close()
  }

  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle {
    const link = this.#links.get(workerId)
    if (link !== undefined) return link.send(request, sink)
    const text = `worker ${workerId} is not known here`
    sink.onError(new BatonError('backend.worker_unavailable', text, { data: { workerId } }))
    return { cancel: () => undefined }
  }

  releaseKv(workerId: WorkerId, offerId: string): void {
    this.#links.get(workerId)?.releaseKv(offerId)
  }

  close(): Promise<void> {
    for (const link of this.#links.values()) link.close()
    this.#links.clear()
    return Promise.resolve()
  }
}
