/**
 * Gauges for scaling the number of workers of a role with HPA, KEDA or by hand; read at each scrape.
 */
import { Gauge } from 'prom-client'
import type { Registry } from 'prom-client'
import { roleLoadOf } from '../../router/index.ts'
import type { RoleLoad, RouterStatus } from '../../router/index.ts'

interface RoleMetric {
  readonly name: string
  readonly help: string
  /** Null: not known. */
  readonly value: (load: RoleLoad, ttftGoalMs: number | null) => number | null
}

const METRICS: readonly RoleMetric[] = [
  {
    name: 'role_workers',
    help: 'Reachable workers of a role',
    value: ({ workers }) => workers,
  },
  {
    name: 'role_queued_requests',
    help: 'Requests that wait for a worker of a role',
    value: ({ queuedRequests }) => queuedRequests,
  },
  {
    name: 'role_utilisation_ratio',
    help: "Used share of the capacity of a role's workers: KV blocks or full workers, 1 while requests wait",
    value: ({ utilisation }) => utilisation,
  },
  {
    name: 'role_predicted_ttft_seconds',
    help: 'Predicted time to the first token for a request of typical length that arrives now',
    value: ({ predictedTtftMs }) => (predictedTtftMs === null ? null : predictedTtftMs / 1000),
  },
  {
    name: 'role_ttft_goal_ratio',
    help: 'Predicted time to the first token divided by the goal (--ttft-goal); above 1 the role has too few workers',
    value: ({ predictedTtftMs }, goalMs) =>
      predictedTtftMs === null || goalMs === null ? null : predictedTtftMs / goalMs,
  },
]

export class RoleMetrics {
  readonly #ttftGoalMs: number | null
  readonly #gauges: readonly { readonly gauge: Gauge; readonly value: RoleMetric['value'] }[]

  constructor(registry: Registry, ttftGoalMs: number | null) {
    this.#ttftGoalMs = ttftGoalMs
    this.#gauges = METRICS.map(({ name, help, value }) => ({
      value,
      gauge: new Gauge({
        name: `baton_frontend_${name}`,
        help,
        labelNames: ['model', 'worker_type'],
        registers: [registry],
      }),
    }))
  }

  read(routers: readonly (readonly [model: string, status: RouterStatus])[]): void {
    for (const { gauge } of this.#gauges) gauge.reset()
    for (const [model, status] of routers) {
      for (const worker_type of ['prefill', 'decode'] as const) {
        const load = roleLoadOf(status[worker_type])
        for (const { gauge, value } of this.#gauges) {
          const seen = value(load, this.#ttftGoalMs)
          if (seen !== null) gauge.set({ model, worker_type }, seen)
        }
      }
    }
  }
}
