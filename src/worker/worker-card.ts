/** Builds a worker's card from its engine's configuration and the address on which it listens. */
import type { EngineConfig, WorkerCard } from '../request/index.ts'
import type { WorkerOptions } from './worker-options.ts'
import type { WorkerAddress } from './worker-ports.ts'

/** Decode workers fetch their KV from others, so their cache says nothing about where to prefill. */
export function publishesKvEvents(options: WorkerOptions, engine: EngineConfig): boolean {
  return (
    options.mode !== 'decode' &&
    engine.kvCacheBlockSize !== undefined &&
    options.engine.observe !== undefined
  )
}

export function workerCardOf(
  options: WorkerOptions,
  engine: EngineConfig,
  address: WorkerAddress,
): WorkerCard {
  const { workerId, mode, engineName, version, clock, pid, taints, topology, runtimeData } = options
  return {
    workerId,
    mode,
    host: address.host,
    port: address.port,
    engine: {
      ...engine,
      // Absent would mean that the worker does not say, and constraints of requests would be ignored.
      features: engine.features ?? [],
      ...(runtimeData === undefined
        ? {}
        : { runtimeData: { ...engine.runtimeData, ...runtimeData } }),
    },
    engineName,
    ...(address.agreement === undefined ? {} : { agreement: address.agreement }),
    ...(address.text === undefined ? {} : { text: address.text }),
    ...(options.weight === undefined ? {} : { weight: options.weight }),
    ...(options.changesRole === true ? { changesRole: true } : {}),
    version,
    publishesKvEvents: publishesKvEvents(options, engine),
    startedAtEpochMs: clock.epochMs(),
    ...(pid === undefined ? {} : { pid }),
    ...(taints === undefined ? {} : { taints }),
    ...(topology === undefined ? {} : { topology }),
  }
}
