/** The query of `GET /v1/responses/{id}`. */
import { invalid } from '../fields/generation-fields.ts'
import { queryFields } from '../fields/query-fields.ts'

interface ResponseQuery {
  readonly stream: boolean
  /** The number of the last event that the client has; -1: none. */
  readonly startingAfter: number
}

export function parseResponseQuery(query: string): ResponseQuery {
  const { stream = 'false', starting_after: after } = queryFields(query)
  if (stream !== 'true' && stream !== 'false') throw invalid('stream', 'must be true or false')
  if (after === undefined) return { stream: stream === 'true', startingAfter: -1 }
  if (stream === 'false') throw invalid('starting_after', 'needs `stream=true`')
  if (!/^\d{1,15}$/.test(after)) throw invalid('starting_after', 'must be an integer of at least 0')
  return { stream: true, startingAfter: Number(after) }
}
