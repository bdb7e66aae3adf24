/**
 * The connection of one frontend to one worker in the simulated network: up, lost, up again, closed.
 *
 * up ──(break, death, silence)──▶ down ──(reconnectMs)──▶ up …        close ▶ closed
 *
 * Like over TCP, a loss fails every running reply at the frontend and drops every request at the worker, each side
 * when it notices; a new connection starts with a complete snapshot of blocks and load.
 */
import { BatonError, InFlightMap } from '../../base/index.ts'
import type { Timer, WorkerId } from '../../base/index.ts'
import type { KvEventBatch, LoadReport } from '../../kv/index.ts'
import type { GenerateRequest, ReplySink, RequestHandle } from '../../request/index.ts'
import { KvEventGaps, wholeKvSnapshot } from '../../wire/index.ts'
import type { WorkerHandler } from '../../wire/index.ts'
import type { VirtualClock } from '../clock/virtual-clock.ts'
import type { NetworkDice } from './network-faults.ts'
import { OrderedPipe } from './ordered-pipe.ts'
import { SimExchange } from './sim-exchange.ts'
import type { ExchangeLink } from './sim-exchange.ts'

/** A worker process as the network sees it. */
export interface SimPeer {
  readonly workerId: WorkerId
  readonly handler: WorkerHandler
  isAlive: boolean
  isDraining: boolean
  /** Nothing is delivered before this time. */
  partitionedUntilMs: number
}

/** What a plane reports to its frontend. */
export interface SimPlaneReports {
  onKvEvents(workerId: WorkerId, batch: KvEventBatch): void
  onLoad(workerId: WorkerId, report: LoadReport): void
}

interface SimLinkOptions {
  readonly peer: SimPeer
  readonly clock: VirtualClock
  readonly dice: NetworkDice
  readonly reports: SimPlaneReports
}

const NO_HANDLE: RequestHandle = { cancel: () => undefined }

export class SimLink implements ExchangeLink {
  readonly toFrontend: OrderedPipe
  readonly #toWorker: OrderedPipe
  readonly #options: SimLinkOptions
  readonly #gaps: KvEventGaps
  readonly #atFrontend = new InFlightMap<number, SimExchange>()
  readonly #atWorker = new InFlightMap<number, SimExchange>()
  #exchangeCount = 0
  #state: 'up' | 'down' | 'closed' = 'down'
  #isRetired = false
  #retry: Timer | null = null
  #silence: Timer | null = null

  constructor(options: SimLinkOptions) {
    const { clock, dice, peer, reports } = options
    this.#options = options
    this.toFrontend = new OrderedPipe(clock, dice)
    this.#toWorker = new OrderedPipe(clock, dice)
    this.#gaps = new KvEventGaps({
      deliver: (batch) => reports.onKvEvents(peer.workerId, batch),
      askSnapshot: () => this.askSnapshot(),
    })
    this.#connect()
  }

  get liveReplies(): number {
    return this.#atFrontend.size
  }

  nowMs(): number {
    return this.#options.clock.nowMs()
  }

  send(request: GenerateRequest, sink: ReplySink): RequestHandle {
    const { peer } = this.#options
    if (this.#state !== 'up') {
      sink.onError(
        new BatonError('transport.cannot_connect', `worker ${peer.workerId} cannot be reached`),
      )
      return NO_HANDLE
    }
    if (this.#isRetired) {
      sink.onError(new BatonError('backend.worker_draining', 'the worker is shutting down'))
      return NO_HANDLE
    }
    const exchange = new SimExchange(this, this.#exchangeCount++, request, sink)
    this.#atFrontend.set(exchange.number, exchange)
    if (!this.passes()) return exchange
    this.#toWorker.send(() => this.#arrive(exchange))
    return exchange
  }

  sendControl(deliver: () => void): void {
    if (this.#state !== 'up' || !this.passes()) return
    const { dice } = this.#options
    this.#toWorker.send(deliver)
    if (dice.happens(dice.faults.controlDuplicate)) this.#toWorker.send(deliver)
  }

  passes(): boolean {
    if (this.#state !== 'up') return false
    const { dice } = this.#options
    if (!dice.happens(dice.faults.messageLoss)) return true
    this.break('a message was lost')
    return false
  }

  releaseKv(offerId: string): void {
    this.sendControl(() => this.#options.peer.handler.releaseKv?.(offerId))
  }

  askSnapshot(): void {
    this.sendControl(() => this.#sendSnapshot())
  }

  sendKvEvents(batch: KvEventBatch): void {
    if (this.#state !== 'up' || this.#isRetired) return
    const { faults } = this.#options.dice
    if (this.#options.dice.happens(faults.eventLoss)) return
    this.#tellEvents(batch)
    if (this.#options.dice.happens(faults.eventDuplicate)) this.#tellEvents(batch)
  }

  sendLoad(report: LoadReport): void {
    if (this.#state !== 'up' || this.#isRetired) return
    const { peer, reports } = this.#options
    if (this.toFrontend.isDirect) reports.onLoad(peer.workerId, report)
    else this.toFrontend.send(() => reports.onLoad(peer.workerId, report))
  }

  /** The connection breaks at once; each side notices within the delay of the network. */
  break(why: string): void {
    if (this.#state !== 'up') return
    this.#state = 'down'
    this.toFrontend.clear()
    this.#toWorker.clear()
    this.#silence?.cancel()
    this.#silence = null
    const { clock, dice, peer } = this.#options
    const reason = new BatonError('transport.disconnected', `worker ${peer.workerId}: ${why}`)
    const atFrontend = this.#atFrontend.values()
    const atWorker = this.#atWorker.values()
    this.#atWorker.clear()
    for (const exchange of [...atFrontend, ...atWorker]) exchange.cut()
    clock.after(dice.delayMs(), () => {
      for (const exchange of atFrontend) exchange.failAtFrontend(reason)
      if (this.#isRetired) this.close()
    })
    if (peer.isAlive) {
      clock.after(dice.delayMs(), () => {
        for (const exchange of atWorker) exchange.dropAtWorker()
      })
    }
    if (!this.#isRetired) this.#retryLater()
  }

  /** Nothing is delivered until then; a connection that is silent for too long is lost. */
  partition(untilMs: number): void {
    if (this.#state !== 'up') return
    const { clock, dice } = this.#options
    this.toFrontend.hold(untilMs)
    this.#toWorker.hold(untilMs)
    if (untilMs - clock.nowMs() < dice.faults.silenceMs || this.#silence !== null) return
    this.#silence = clock.after(dice.faults.silenceMs, () => this.break('the peer is silent'))
  }

  /** The worker signed off: running replies continue, no new requests are sent. */
  retire(): void {
    this.#isRetired = true
    if (this.#atFrontend.size === 0) this.close()
  }

  close(): void {
    this.break('the connection is closed')
    this.#state = 'closed'
    this.#retry?.cancel()
  }

  frontendEnded(exchange: SimExchange): void {
    this.#atFrontend.delete(exchange.number)
    if (this.#isRetired && this.#atFrontend.size === 0) this.close()
  }

  workerEnded(exchange: SimExchange): void {
    this.#atWorker.delete(exchange.number)
  }

  #arrive(exchange: SimExchange): void {
    const { peer } = this.#options
    if (!peer.isAlive) return
    this.#atWorker.set(exchange.number, exchange)
    if (peer.isDraining)
      exchange.refuse(new BatonError('backend.worker_draining', 'this worker is shutting down'))
    else exchange.arrive(peer.handler)
  }

  #tellEvents(batch: KvEventBatch): void {
    const { eventDelayMs } = this.#options.dice.faults
    const take = (): void => this.#gaps.take(batch)
    if (eventDelayMs === 0) this.toFrontend.send(take)
    else this.#afterDelay(eventDelayMs, take)
  }

  /** Events and replies have separate lanes. */
  #afterDelay(delayMs: number, take: () => void): void {
    const { clock, dice } = this.#options
    clock.afterQuietly(delayMs + dice.delayMs(), () => {
      if (this.#state === 'up') take()
    })
  }

  #sendSnapshot(): void {
    for (const batch of wholeKvSnapshot(this.#options.peer.handler.kvSnapshot?.())) {
      this.#tellEvents(batch)
    }
  }

  #connect(): void {
    const { peer, clock } = this.#options
    this.#retry = null
    if (!peer.isAlive || peer.partitionedUntilMs > clock.nowMs()) {
      this.#retryLater()
      return
    }
    this.#state = 'up'
    this.#gaps.reset()
    this.#sendSnapshot()
    for (const report of peer.handler.loadSnapshot?.() ?? []) this.sendLoad(report)
  }

  #retryLater(): void {
    const { clock, dice } = this.#options
    if (this.#state === 'closed' || this.#retry !== null) return
    this.#retry = clock.after(dice.faults.reconnectMs, () => this.#connect())
  }
}
