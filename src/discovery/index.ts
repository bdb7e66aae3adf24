/**
 * Room `discovery`: how frontends find workers.
 *
 * Owns the `Discovery` contract and its implementations: memory (one process), file (one machine), static (a list),
 * NATS and Kubernetes (many machines); the kinds and the text that chooses one (`kinds/`); and texts that a fleet
 * keeps at NATS (`NatsTable`).
 * Does not own the worker's card (`request`) or what a frontend makes of a member (`frontend/models`).
 * May use: base, request, worker, os. For: `cli`, which chooses one, and programs that embed Baton.
 */
export type {
  Discovery,
  DiscoveryObserver,
  DiscoveryWatch,
  LeaveReason,
  PeerChannel,
} from './discovery.ts'
export { checkCard } from './card-file.ts'
export { describeDiscovery, openAddress, parseDiscovery } from './kinds/discovery-kinds.ts'
export type { DiscoveryAddress } from './kinds/discovery-kinds.ts'
export { parseNatsAddress } from './nats/nats-address.ts'
export type { NatsAddress } from './nats/nats-address.ts'
export { NatsTable } from './nats/nats-table.ts'
export type { AddressDiscoveryOptions } from './address-discovery.ts'
export { FileDiscovery } from './file-discovery.ts'
export type { FileDiscoveryOptions } from './file-discovery.ts'
export { MemoryDiscovery } from './memory-discovery.ts'
export { StaticDiscovery } from './static-discovery.ts'
