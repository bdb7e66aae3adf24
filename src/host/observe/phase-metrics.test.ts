import { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { workerIdOf } from '../../base/index.ts'
import type { FrontendEvent, RequestFacts } from '../../frontend/index.ts'
import { PhaseMetrics } from './phase-metrics.ts'

const FACTS: RequestFacts = {
  requestId: 'r',
  model: 'm',
  endpoint: 'chat_completions',
  streamed: true,
  traceparent: undefined,
}
const WORKER = workerIdOf(1)

async function sumsAfter(...events: FrontendEvent[]): Promise<string[]> {
  const registry = new Registry()
  const metrics = new PhaseMetrics(registry)
  for (const event of events) metrics.observe(event, FACTS)
  const text = await registry.metrics()
  return text.split('\n').filter((line) => /_sum\{/.test(line))
}

const routed = (phase: 'prefill' | 'decode', promptBlocks = 4): FrontendEvent => ({
  kind: 'routed',
  phase,
  workerId: WORKER,
  overlapBlocks: 3,
  promptBlocks,
  queuedMs: 2000,
  decisionMs: 1,
  atMs: 0,
})

describe('PhaseMetrics', () => {
  it('routed - queue, choice and the expected share of the prompt, by phase', async () => {
    expect(await sumsAfter(routed('prefill'))).toEqual([
      'baton_frontend_router_queue_seconds_sum{model="m",phase="prefill"} 2',
      'baton_frontend_route_seconds_sum{model="m",phase="prefill"} 0.001',
      'baton_frontend_kv_hit_rate_predicted_sum{model="m",phase="prefill"} 0.75',
    ])
  })

  it('no share - for a decode leg, which does not look for the prompt, and for a prompt below one block', async () => {
    const shares = [
      ...(await sumsAfter(routed('decode'))),
      ...(await sumsAfter(routed('prefill', 0))),
    ]
    expect(shares.filter((line) => line.includes('hit_rate'))).toEqual([])
  })

  it('a KV transfer - its time and its bytes', async () => {
    const transfer = { elapsedMs: 500, bytes: 4096, blocksPulled: 2, blocksHeld: 1 }
    const event = {
      kind: 'kvTransferred',
      workerId: WORKER,
      ...transfer,
      recomputed: false,
      atMs: 1,
    } as const
    expect(await sumsAfter(event)).toEqual([
      'baton_frontend_kv_transfer_seconds_sum{model="m"} 0.5',
      'baton_frontend_kv_transfer_bytes_sum{model="m"} 4096',
    ])
  })
})
