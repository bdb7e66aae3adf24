/** Pagination of lists in the form that OpenAI's clients expect. */
import type { Page } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import { jsonReply } from './endpoint-status.ts'

/** `all`: newest first. */
export function pageReply<Item extends { readonly id: string }>(
  all: readonly Item[],
  { limit, after, order }: Page,
  shown: (item: Item) => unknown,
): HttpReply {
  const ordered = order === 'asc' ? all.toReversed() : all
  const start = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && start === 0) {
    const text = `\`after\`: there is no object with the id ${after.slice(0, 100)}`
    throw new BatonError('request.invalid_argument', text, { data: { param: 'after' } })
  }
  const data = ordered.slice(start, start + limit)
  return jsonReply(200, {
    object: 'list',
    data: data.map(shown),
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length,
  })
}
