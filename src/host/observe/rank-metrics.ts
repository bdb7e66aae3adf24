/**
 * Gauges of what the router knows about every rank, one entry per metric; read at each scrape.
 */
import { Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import type { RankStatus, RouterStatus } from '../../router/index.ts'

interface RankMetric {
  readonly name: string
  readonly help: string
  /** Null: the rank has not reported it. */
  readonly value: (rank: RankStatus) => number | null
}

const METRICS: readonly RankMetric[] = [
  {
    name: 'worker_active_decode_blocks',
    help: "Active KV blocks by the router's count",
    value: (rank) => rank.activeDecodeBlocks,
  },
  {
    name: 'worker_active_prefill_tokens',
    help: "Prompt tokens in prefill by the router's count",
    value: (rank) => rank.activePrefillTokens,
  },
  {
    name: 'worker_active_requests',
    help: "Requests at the worker by the router's count",
    value: (rank) => rank.activeRequests,
  },
  {
    name: 'worker_queued_requests',
    help: "Requests in the engine's queue, as the worker reports",
    value: (rank) => (rank.reportedBlocks === null ? null : rank.reportedQueued),
  },
  {
    name: 'worker_kv_blocks_used',
    help: 'KV blocks in use, as the worker reports',
    value: (rank) => rank.reportedBlocks,
  },
  {
    name: 'worker_kv_blocks',
    help: 'KV blocks of the worker in total',
    value: (rank) => rank.totalBlocks,
  },
]

export class RankMetrics {
  readonly #gauges: readonly { readonly gauge: Gauge; readonly value: RankMetric['value'] }[]

  constructor(registry: Registry) {
    this.#gauges = METRICS.map(({ name, help, value }) => ({
      value,
      gauge: new Gauge({
        name: `baton_frontend_${name}`,
        help,
        labelNames: ['model', 'worker_id', 'dp_rank', 'worker_type'],
        registers: [registry],
      }),
    }))
  }

  /** Returns the ids of all current workers. */
  read(routers: readonly (readonly [model: string, status: RouterStatus])[]): ReadonlySet<string> {
    const workerIds = new Set<string>()
    for (const { gauge } of this.#gauges) gauge.reset()
    for (const [model, status] of routers) {
      for (const type of ['prefill', 'decode'] as const) {
        for (const rank of status[type].ranks) {
          workerIds.add(rank.workerId)
          this.#set(model, type, rank)
        }
      }
    }
    return workerIds
  }

  #set(model: string, type: string, rank: RankStatus): void {
    const { workerId, dpRank } = rank
    const labels = { model, worker_id: workerId, dp_rank: dpRank, worker_type: type }
    for (const { gauge, value } of this.#gauges) {
      const seen = value(rank)
      if (seen !== null) gauge.set(labels, seen)
    }
  }
}
