/**
 * What a frontend logs of discovery. Nothing else depends on it, except that an outage is also a state of the frontend.
 */
import type { Logger } from 'pino'
import type { DiscoveryObserver } from '../../discovery/index.ts'

type Logged = 'unreadable' | 'alsoAt' | 'refused' | 'discoveryAway' | 'discoveryBack'

/** Reasons of one outage that are logged; the state always has the newest one. */
const REASONS_MAX = 100

export function discoveryLog(
  logger: Logger,
  state: { away(why: string): void; back(): void },
): Required<Pick<DiscoveryObserver, Logged>> {
  const reasons = new Set<string>()
  return {
    unreadable: (entry, why) =>
      logger.warn({ entry, why }, 'an entry in discovery cannot be read and is ignored'),
    alsoAt: (workerId, address, used) =>
      logger.warn({ workerId, address, used }, 'a worker has two addresses; one of them is used'),
    refused: (why) =>
      logger.warn({ why }, 'discovery refuses a part of what frontends need or share'),
    discoveryAway: (why) => {
      state.away(why)
      // Two may alternate, as of servers behind one address.
      if (reasons.has(why) || reasons.size >= REASONS_MAX) return
      reasons.add(why)
      logger.warn({ why }, 'discovery is unreachable; known workers stay in use')
    },
    discoveryBack: () => {
      state.back()
      reasons.clear()
      // Logged at the same level as the outage, so that a reader of the first message also sees its end.
      logger.warn('discovery is reachable again')
    },
  }
}
