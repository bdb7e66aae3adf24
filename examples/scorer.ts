/**
 * Custom routing rules: a scorer that avoids workers whose rack uses too much power, and a filter that excludes a worker
 * under repair. The decision's record shows their effect. Run: npx tsx examples/scorer.ts
 */
import { seededRandom, workerIdOf } from 'baton-llm'
import { completeRouterConfig, KvRouter } from 'baton-llm/router'
import type { Filter, Scorer } from 'baton-llm/router'

/** Kilowatts per rack, from your own measurement. Costs are in KV blocks; lower wins. */
const power: Readonly<Record<string, number>> = { north: 38, south: 21 }
const sparePower: Scorer = {
  name: 'spare-power',
  unit: 'blocks',
  of: ({ card }) => ((power[card.topology?.['rack'] ?? ''] ?? 0) > 30 ? 25 : 0),
}
const notUnderRepair: Filter = ({ card }) =>
  card.taints?.includes('repair') ? 'under repair' : null

const clock = { nowMs: () => 0, epochMs: () => 0, after: () => ({ cancel: () => undefined }) }
const config = completeRouterConfig({ scorers: [sparePower], filters: [notUnderRepair] })
const router = new KvRouter({ config, clock, random: seededRandom(1) })
for (const [id, rack, taints] of [
  [1, 'north', []],
  [2, 'south', []],
  [3, 'south', ['repair']],
] as const) {
  router.workerJoined({
    workerId: workerIdOf(id),
    mode: 'agg',
    host: 'localhost',
    port: 1,
    engine: { model: 'm', kvCacheBlockSize: 16 },
    engineName: 'example',
    publishesKvEvents: false,
    topology: { rack },
    taints,
    version: '0',
  })
}

const request = {
  requestId: 'example-1',
  model: 'm',
  tokenIds: Uint32Array.from({ length: 160 }, (_, i) => i),
  sampling: {},
  stop: {},
  output: {},
  eosTokenIds: [],
  routing: {},
}
const { record } = router.select({ request, phase: 'aggregated', queuedMs: 0 })
for (const { workerId, cost, terms } of record.candidates) {
  console.log(`worker ${workerId}: cost ${cost} blocks, of which ${terms['spare-power']} for power`)
}
for (const { workerId, reason } of record.excluded) console.log(`worker ${workerId}: ${reason}`)
console.log(record.outcome)
