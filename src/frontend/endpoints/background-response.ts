/**
 * Background responses of the Responses API: the call is answered at once, the response is computed later, and
 * read or cancelled by its id.
 */
import { responseObject } from '../../api/index.ts'
import type { ChatCall } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import { refuseOtherModels } from '../access/tenant-rules.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { generate } from '../generation/generation.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import type { ReplyWriters } from '../reply/reply-writer.ts'
import type { BackgroundResponses } from '../state/background-responses.ts'
import type { StoredResponse, StoredResponses } from '../state/stored-responses.ts'
import { chatJob } from './endpoint-chat.ts'
import { jsonReply } from './endpoint-status.ts'

interface BackgroundCall {
  readonly chat: ChatCall
  readonly echo: Readonly<Record<string, unknown>>
  /** Including earlier turns. */
  readonly input: readonly unknown[]
  /** The writers that store the response when it has ended. */
  readonly writers: ReplyWriters
  readonly stored: StoredResponses
}

/** Errors that can be detected without work are thrown now; later ones become the response's own failure. */
export function answerInBackground(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  { chat, echo, input, writers, stored }: BackgroundCall,
): HttpReply {
  const model = deps.registry.ready(chat.model)
  refuseOtherModels(record.caller, [chat.model ?? model.name, model.name])
  const id = `resp_${record.requestId}`
  const created = Math.floor(record.receivedEpochMs / 1000)
  const head = { id, created, model: model.name }
  const shown = (status: 'queued' | 'in_progress' | 'failed' | 'cancelled', error?: BatonError) =>
    responseObject({ head, echo, status, output: [], ...(error === undefined ? {} : { error }) })
  const queued = shown('queued')
  stored.keepResponse(id, { response: shown('in_progress'), input })
  deps.background.begin(
    id,
    stored,
    async (signal) => await generate(deps, { ...http, signal }, record, chatJob(chat, writers)),
    (error) => {
      record.ended({ status: error.row.httpStatus, error, usage: null, choices: 0 })
      const isCancelled = error.code === 'request.cancelled'
      const response = isCancelled ? shown('cancelled') : shown('failed', error)
      // It may have been deleted meanwhile.
      if (stored.has(id)) stored.keepResponse(id, { response, input })
    },
  )
  return jsonReply(200, queued)
}

const LOST = new BatonError(
  'backend.engine_shutdown',
  'the server that computed this response has stopped',
)

/** The current state; a response that no process computes any more has failed. */
export function asItIs(
  background: BackgroundResponses,
  stored: StoredResponses,
  id: string,
): StoredResponse {
  const { response, input } = stored.response(id)
  if (response['status'] !== 'in_progress' || background.isAlive(id, stored)) {
    return { response, input }
  }
  const error = { code: 'server_error', message: LOST.message }
  return { response: { ...response, status: 'failed', error }, input }
}

/** Throws `request.invalid_argument` when the response has ended. */
export function cancelInBackground(
  background: BackgroundResponses,
  stored: StoredResponses,
  id: string,
): HttpReply {
  const { response, input } = asItIs(background, stored, id)
  if (response['status'] === 'cancelled') return jsonReply(200, response)
  if (response['status'] !== 'in_progress') {
    const text = 'only a background response that has not ended can be cancelled'
    throw new BatonError('request.invalid_argument', text, { data: { param: 'response_id' } })
  }
  const cancelled = { ...response, status: 'cancelled' }
  stored.keepResponse(id, { response: cancelled, input })
  background.cancel(id, stored)
  return jsonReply(200, cancelled)
}
