/**
 * Room `testing`: conformance kits for implementations of Baton's contracts, `baton-llm/testing`.
 *
 * Owns the kits for discovery, request planes and KV transports; re-exports the engine's kit, which is next to its
 * contract.
 * May use: base, request, wire, engine, discovery. For: tests of an implementation; nothing that serves loads it.
 *
 * Every kit is a list of named checks that throw, or a report, so it works with any test framework.
 */
export { CONFORMANCE_RULES, describeFailures, runConformance } from '../engine/testing/index.ts'
export type {
  ConformanceFailure,
  ConformanceOptions,
  ConformanceReport,
  ConformanceRule,
  ConformanceSkip,
  EngineFactory,
} from '../engine/testing/index.ts'
export { DISCOVERY_CHECKS, DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'
export type { DiscoveryCheck, DiscoveryPair } from '../testing/discovery-kit.ts'
export { DISCOVERY_FAULT_CHECKS } from './discovery-faults.ts'
export type { DiscoveryFaultCheck, FaultScene } from './discovery-faults.ts'
export { KitBlocks, KitTarget, KV_TRANSPORT_CASES } from './kv-transport-kit.ts'
export type {
  KvTransportCase,
  KvTransportFactory,
  KvTransportSettings,
  KvTransportUnderTest,
} from './kv-transport-kit.ts'
export {
  CollectingSink,
  countingHandler,
  REQUEST_PLANE_CASES,
  WORKER,
} from './request-plane-kit.ts'
export type { PlaneCase, PlaneFactory, PlaneUnderTest } from './request-plane-kit.ts'
