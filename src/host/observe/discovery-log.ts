/**
 * What a frontend only logs of discovery: nothing else depends on it.
 */
import type { Logger } from 'pino'
import type { DiscoveryObserver } from '../../discovery/index.ts'

export function discoveryLog(
  logger: Logger,
): Required<Pick<DiscoveryObserver, 'unreadable' | 'alsoAt' | 'refused'>> {
  return {
    unreadable: (entry, why) =>
      logger.warn({ entry, why }, 'an entry in discovery cannot be read and is ignored'),
    alsoAt: (workerId, address, used) =>
      logger.warn({ workerId, address, used }, 'a worker has two addresses; one of them is used'),
    refused: (why) =>
      logger.warn({ why }, 'discovery refuses a part of what frontends need or share'),
  }
}
