/**
 * The ranks that a request may go to, however loaded they are. Queued requests with the same set wait for each other; others
 * pass them, because a request that only one worker may take must not keep those back that an idle one could take.
 */
import type { KvRouter } from '../decide/kv-router.ts'
import type { SelectionQuery } from '../decide/selection.ts'
import { isPlain } from './request-constraints.ts'

export interface RankSet {
  /** Equal for the same ranks. Embeddings are apart where the others need a place in the following pool as well. */
  readonly key: string
  /** Of the ranks of the pool. */
  readonly share: number
}

export const ALL_RANKS: RankSet = { key: '', share: 1 }
const EMBEDDINGS: RankSet = { key: 'embed', share: 1 }

export function rankSetOf(router: KvRouter, query: SelectionQuery): RankSet {
  const isEmbedding = query.phase === 'prefill' && query.request.kind === 'embed'
  const all = isEmbedding ? EMBEDDINGS : ALL_RANKS
  const isSimple = query.phase !== 'decode' && router.config.filters.length === 0 && isPlain(query)
  const slots = isSimple ? null : router.reachable(query)
  if (slots === null) return all
  const share = slots.length / Math.max(router.capacity.rankCount, 1)
  return { key: `${all.key}:${slots.join()}`, share }
}
