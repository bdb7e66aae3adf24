/** Counters of an adapter for its server, as metrics of the worker that hosts it. */
import { metricsOfLoad } from '../../engine/index.ts'
import type { EngineMetric } from '../../engine/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { HandOverCounts } from './hand-over-counts.ts'

interface UpstreamFigures {
  readonly handOvers: HandOverCounts
  readonly loads: readonly LoadReport[]
}

export function upstreamMetrics(
  client: UpstreamClient,
  { handOvers, loads }: UpstreamFigures,
): readonly EngineMetric[] {
  const { calls, inFlight, failures, retries, refused } = client.counters
  const counter = (
    name: string,
    help: string,
    value: number,
    labels: Readonly<Record<string, string>> = {},
  ): EngineMetric => ({ name, help, kind: 'counter', value, labels })
  const gauge = (name: string, help: string, value: number): EngineMetric => ({
    name,
    help,
    kind: 'gauge',
    value,
    labels: {},
  })
  const hand =
    'Decode legs, by whether the prefilled KV was used; failed: the server answered with an error'
  return [
    counter('upstream_calls_total', 'HTTP requests to the server', calls),
    gauge('upstream_calls_in_flight', 'HTTP requests whose answer has not ended', inFlight),
    counter(
      'upstream_failures_total',
      'Calls that failed at the server or on the way to it',
      failures,
    ),
    counter('upstream_retries_total', 'Calls sent again before the first byte', retries),
    counter(
      'upstream_refused_total',
      'Calls refused because of the limit or the circuit breaker',
      refused,
    ),
    gauge(
      'upstream_breaker_open',
      '1 while the server is not asked because its circuit breaker is open',
      isOpen(client),
    ),
    counter('upstream_hand_overs_total', hand, handOvers.moved, { kv: 'moved' }),
    counter('upstream_hand_overs_total', hand, handOvers.notMoved, { kv: 'not_moved' }),
    counter('upstream_hand_overs_total', hand, handOvers.failed, { kv: 'failed' }),
    ...loads.flatMap((load) => metricsOfLoad(load)),
  ]
}

function isOpen({ breaker }: UpstreamClient): number {
  return breaker.state === 'open' ? 1 : 0
}
