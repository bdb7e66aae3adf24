/**
 * How a frontend reaches its workers: request planes on top of each other, each of which learns which workers exist.
 *
 *   ForwardPlane (requests that go to foreign engines unchanged; optional)
 *     → plane of the texts (text requests are tokenized here)
 *       → TCP, or a direct call to workers of this process
 */
import { BatonError } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { FleetNews } from '../../frontend/index.ts'
import { commandWorker, LocalRequestPlane, TcpRequestPlane } from '../../network/index.ts'
import type { FleetReports } from '../../network/index.ts'
import { describeDifferences } from '../../request/index.ts'
import type { RequestPlane, WorkerCard } from '../../request/index.ts'
import { ForwardPlane } from '../../upstream/index.ts'
import { wireSecurity } from '../guard/wire-security.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { WorkerPeers } from '../peers/worker-peers.ts'
import { ModelTexts } from './model-texts.ts'
import { BATON_VERSION } from './version.ts'

/** Milliseconds for the answer to a command; the work that it starts continues after the answer. */
const COMMAND_MS = 5_000

interface WorkerPlanesOptions {
  readonly config: ServeConfig
  /** 'local': workers in this process are called directly; 'tcp': workers are reached over TCP. */
  readonly kind: 'tcp' | 'local'
  readonly forwards: boolean
  readonly reports: FleetReports
  /** The cards of all workers whose model is served. */
  readonly cards: () => readonly WorkerCard[]
  readonly onTextProblem: (problem: string) => void
}

export class WorkerPlanes {
  /** Null: workers are reached over TCP. */
  readonly local: LocalRequestPlane | null
  /** Sends requests unchanged to foreign engines; null: there are none. */
  readonly forward: ForwardPlane | null
  readonly texts: ModelTexts
  /** The uppermost plane, to which the router sends. */
  readonly plane: RequestPlane
  /** The way to other frontends over common workers; null: workers are called directly. */
  readonly peers: WorkerPeers | null
  readonly #tcp: TcpRequestPlane | null
  readonly #config: ServeConfig

  constructor({ config, kind, forwards, reports, cards, onTextProblem }: WorkerPlanesOptions) {
    this.#config = config
    const security = wireSecurity(config)
    const software = `baton ${BATON_VERSION}`
    if (kind === 'local') {
      this.#tcp = this.peers = null
      this.local = new LocalRequestPlane(reports)
    } else {
      const checksums = config.wireChecksums
      const tcp = new TcpRequestPlane({ ...reports, ...security, software, checksums })
      this.#tcp = tcp
      this.peers = new WorkerPeers((bytes, over) => tcp.sendPeer(bytes, over))
      this.local = null
    }
    const workers = (this.#tcp ?? this.local) as RequestPlane
    this.texts = new ModelTexts(workers, { config, security, cards, onProblem: onTextProblem })
    this.forward = forwards ? new ForwardPlane(this.texts.plane) : null
    this.plane = this.forward ?? this.texts.plane
  }

  /** Tells the planes which workers to connect to and which to drop. */
  tell(news: FleetNews): void {
    if (news.kind === 'workerJoined') {
      this.forward?.workerJoined(news.card)
      if (this.local === null) this.texts.workerJoined(news.card)
      this.#tcp?.workerJoined(news.card)
      this.local?.tellAll(news.card.workerId)
    } else if (news.kind === 'workerRefused') {
      const { card, model, differences } = news
      const text = `worker ${card.workerId} gets no requests, it differs from the others of ${model}: ${describeDifferences(differences)}`
      this.#tcp?.workerRefused(card, new BatonError('backend.worker_differs', text))
    }
  }

  /** Resolves after `withinMs`: true if the worker has given a sign of life over its connection. */
  async answers(workerId: WorkerId, withinMs: number): Promise<boolean> {
    return (await this.#tcp?.answers(workerId, withinMs)) ?? false
  }

  /** Discovery has lost the worker. */
  workerLeft(workerId: WorkerId, reason: string): void {
    this.#tcp?.workerLeft(workerId, reason)
    this.forward?.workerLeft(workerId)
    this.texts.workerLeft(workerId)
  }

  /** Sends an administration command to a worker and returns its answer. */
  async command(card: WorkerCard, command: Readonly<Record<string, unknown>>): Promise<unknown> {
    const { host, port, workerId } = card
    if (this.local !== null) return await this.local.command(workerId, command)
    const software = `baton ${BATON_VERSION}`
    const security = wireSecurity(this.#config)
    return await commandWorker(
      { host, port, software, ...security, timeoutMs: COMMAND_MS },
      command,
    )
  }
}
