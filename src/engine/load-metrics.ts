/** The load report of a rank as metrics. */
import type { LoadReport } from '../kv/index.ts'
import type { EngineMetric } from './engine-metric.ts'

export function metricsOfLoad(load: LoadReport): readonly EngineMetric[] {
  const labels = { dp_rank: String(load.dpRank) }
  const gauge = (name: string, help: string, value: number): EngineMetric => ({
    name,
    help,
    kind: 'gauge',
    value,
    labels,
  })
  return [
    gauge('kv_blocks_active', 'KV blocks in use by requests', load.activeBlocks),
    gauge('kv_blocks', 'KV blocks in total', load.totalBlocks),
    gauge('requests_running', 'Requests in the batch', load.runningRequests),
    gauge('requests_queued', 'Requests waiting for a place in the batch', load.queuedRequests),
    gauge('prefill_tokens', 'Prompt tokens still to be computed', load.prefillTokensInFlight),
  ]
}
