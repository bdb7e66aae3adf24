/**
 * A frontend of the laboratory: the real router below the real migration, on a plane of the simulated network, with
 * workers from the simulated discovery. It has no HTTP and no text.
 */
import type { Clock, Random } from '../../base/index.ts'
import { createMigratingService } from '../../frontend/index.ts'
import type { Migration } from '../../frontend/index.ts'
import type { RequestService } from '../../request/index.ts'
import { createModelRouter } from '../../router/index.ts'
import type { ModelRouter, PeerNews, RouterOptions } from '../../router/index.ts'
import type { SimDiscovery } from '../network/sim-discovery.ts'
import type { SimNetwork, SimPlane } from '../network/sim-network.ts'

interface LabFrontendOptions {
  readonly clock: Clock
  readonly random: Random
  readonly network: SimNetwork
  readonly discovery: SimDiscovery
  readonly router: RouterOptions
  /** Further attempts of a request whose worker is lost. */
  readonly migrationLimit: number
  readonly onMigrated?: (migration: Migration) => void
  /** Messages for the other frontends. */
  readonly onPeerNews?: (news: PeerNews) => void
}

export class LabFrontend {
  readonly router: ModelRouter
  readonly plane: SimPlane
  readonly service: RequestService

  constructor(options: LabFrontendOptions) {
    const { clock, random, network, discovery, migrationLimit, onMigrated } = options
    this.plane = network.createPlane({
      onKvEvents: (workerId, batch) => this.router.fleet.kvEvents(workerId, batch),
      onLoad: (workerId, report) => this.router.fleet.load(workerId, report),
    })
    this.router = createModelRouter({
      plane: this.plane,
      clock,
      random,
      config: options.router,
      ...(options.onPeerNews === undefined ? {} : { onPeerNews: options.onPeerNews }),
    })
    this.service = createMigratingService(this.router.service, {
      limit: migrationLimit,
      clock,
      ...(onMigrated === undefined ? {} : { record: { tell: onMigrated } }),
    })
    discovery.watch({
      joined: (card) => {
        this.router.fleet.workerJoined(card)
        this.plane.workerJoined(card.workerId)
      },
      left: (workerId, reason) => {
        // The router is told first, so that requests which the plane fails now are not sent there again.
        this.router.fleet.workerLeft(workerId, reason)
        this.plane.workerLeft(workerId, reason)
      },
    })
  }

  /** Requests that the router still counts as running or waiting. */
  get bookings(): number {
    const { prefill, decode } = this.router.status()
    return [prefill, decode].reduce(
      (sum, pool) => sum + pool.activeRequests + pool.queuedRequests,
      0,
    )
  }
}
