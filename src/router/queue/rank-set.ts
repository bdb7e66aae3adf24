/**
 * The ranks that a request may go to, however loaded they are. Queued requests with the same set wait for each other; others
 * pass them, because a request that only one worker may take must not keep those back that an idle one could take.
 */
import type { KvRouter } from '../decide/kv-router.ts'
import type { SelectionQuery } from '../decide/selection.ts'
import { ANYWHERE } from '../ranks/rank-group.ts'
import type { RankGroup } from '../ranks/rank-group.ts'
import { isPlain } from './request-constraints.ts'

/** The key of embeddings differs where the others need a place in the following pool as well. */
export interface RankSet extends RankGroup {
  /** Of the ranks of the pool. */
  readonly share: number
}

export const ALL_RANKS: RankSet = { ...ANYWHERE, share: 1 }
const EMBEDDINGS: RankSet = { ...ALL_RANKS, key: 'embed' }

export function rankSetOf(router: KvRouter, query: SelectionQuery): RankSet {
  const isEmbedding = query.phase === 'prefill' && query.request.kind === 'embed'
  const all = isEmbedding ? EMBEDDINGS : ALL_RANKS
  const slots = isUnrestricted(router, query) ? null : router.reachable(query)
  if (slots === null) return all
  const share = slots.length / Math.max(router.capacity.rankCount, 1)
  return { key: `${all.key}${keyOfSlots(slots)}`, share, slots }
}

/** Of slots in the order of `KvRouter.slots`. */
export const keyOfSlots = (slots: readonly number[]): string => `:${slots.join()}`

/** Both must have room: where the request goes, and where its next leg may run. */
export function inBoth(ranks: RankSet, next: RankSet): RankSet {
  if (next.slots === null) return ranks
  const share = Math.min(ranks.share, next.share)
  return { key: `${ranks.key}>${next.key}`, share, slots: ranks.slots }
}

/** Without asking for each rank. */
function isUnrestricted(router: KvRouter, query: SelectionQuery): boolean {
  return router.config.filters.length === 0 && mayGoAnywhere(router, query)
}

/** Neither the request nor its phase restricts the workers; user-defined filters may. */
export function mayGoAnywhere(
  { decodeModeCount, workerCount }: KvRouter,
  query: SelectionQuery,
): boolean {
  const isMixed = decodeModeCount > 0 && decodeModeCount < workerCount
  return isPlain(query) && !(query.phase === 'decode' && isMixed)
}
