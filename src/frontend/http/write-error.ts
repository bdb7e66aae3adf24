/** The only place where an error becomes a reply, in the format of the API that was called. */
import { anthropicErrorReply, errorReply } from '../../api/index.ts'
import type { BatonError } from '../../base/index.ts'
import type { HttpReply } from './http-exchange.ts'
import type { ApiForm } from './route-facts.ts'

export function writeError(form: ApiForm, error: BatonError, requestId: string): HttpReply {
  const reply = form === 'anthropic' ? anthropicErrorReply(error, requestId) : errorReply(error)
  const { allowed } = error.data
  if (typeof allowed !== 'string') return reply
  return { ...reply, headers: { ...reply.headers, allow: allowed } }
}
