/**
 * Logs what a frontend learns about its fleet: events that affect requests at level `warn`, others at `info`.
 */
import { BatonError } from '../../base/index.ts'
import type { Logger } from 'pino'
import type { FleetNews, FleetNewsObserver } from '../../frontend/index.ts'
import { describeDifferences } from '../../request/index.ts'

export function fleetLog(logger: Logger): FleetNewsObserver {
  return (news) => {
    switch (news.kind) {
      case 'workerJoined':
        return logger.info(
          factsOfCard(news),
          news.isNew ? 'worker joined' : 'the card of a worker has changed',
        )
      case 'workerLeft': {
        const { workerId, model, reason } = news
        const text = reason === 'closed' ? 'worker left' : `worker is gone: ${reason}`
        return logger.info({ workerId, model, reason }, text)
      }
      case 'workerRefused': {
        const { differences } = news
        const text = describeDifferences(differences)
        const facts = { ...factsOfCard(news), differences }
        return logger.warn(
          facts,
          `worker refused because it differs from the others of its model: ${text}`,
        )
      }
      case 'workerConnected':
        return logger.info({ workerId: news.workerId, model: news.model }, 'worker connected')
      case 'workerUnreachable': {
        const { workerId, model, fault } = news
        const { code, message } = fault
        const facts = { workerId, model, code, message }
        return isShutdown(fault)
          ? logger.info(facts, 'worker is shutting down')
          : logger.warn(facts, 'worker cannot be reached')
      }
      case 'nameTaken': {
        const { model, name, owner } = news
        return logger.warn(
          { model, name, owner },
          'two models have this name: requests go to the owner, which has more workers with it, or the oldest',
        )
      }
      case 'modelForgotten':
        return logger.info({ model: news.model }, 'model forgotten: no worker came back')
    }
  }
}

/** The worker announced its shutdown when it closed the connection; its card will be removed next. */
function isShutdown({ cause }: Error): boolean {
  return cause instanceof BatonError && cause.code === 'backend.engine_shutdown'
}

function factsOfCard({
  card,
  model,
}: Extract<FleetNews, { readonly kind: 'workerJoined' | 'workerRefused' }>): object {
  const { workerId, mode, host, port, pid, version, agreement } = card
  return { workerId, model, mode, host, port, pid, version, checksum: agreement?.checksum }
}
