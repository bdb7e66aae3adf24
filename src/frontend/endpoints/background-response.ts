/**
 * Background responses of the Responses API: the call is answered at once, the response is computed later, and
 * read or cancelled by its id.
 */
import { invalidField, responseEvent, responseObject } from '../../api/index.ts'
import type { ChatCall } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import type { CancelSignal } from '../../base/index.ts'
import { refuseOtherModels } from '../access/tenant-rules.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { generate } from '../generation/generation.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import type { ReplyWriters } from '../reply/reply-writer.ts'
import { streamOfEvents } from '../reply/logged-stream.ts'
import type { BackgroundResponses } from '../state/background-responses.ts'
import { dropEvents, EventLog, StoredEvents } from '../state/event-log.ts'
import type { StoredResponse, StoredResponses } from '../state/stored-responses.ts'
import { chatJob } from './endpoint-chat.ts'
import { jsonReply } from './endpoint-status.ts'

interface BackgroundCall {
  readonly chat: ChatCall
  readonly echo: Readonly<Record<string, unknown>>
  /** Including earlier turns. */
  readonly input: readonly unknown[]
  /** The writers that store the response when it has ended, and its events if there is a log for them. */
  readonly writersOf: (events: EventLog | undefined) => ReplyWriters
  readonly stored: StoredResponses
}

/** Errors that can be detected without work are thrown now; later ones become the response's own failure. */
export function answerInBackground(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  { chat, echo, input, writersOf, stored }: BackgroundCall,
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
  const events = chat.stream ? new EventLog(stored, id) : undefined
  // An earlier response with the same id, which the client may choose, is replaced.
  dropEvents(stored, id)
  const tell = (type: string, response: unknown): void =>
    events?.append(responseEvent(type, events.size, { response }))
  tell('response.created', queued)
  tell('response.queued', queued)
  // The reply is whole for the layers below, because it ends with the response and not with a connection.
  const job = chatJob({ ...chat, stream: false }, writersOf(events), 'input')
  deps.background.begin(
    id,
    stored,
    async (signal) => await generate(deps, { ...http, signal }, record, job),
    (error, isCancelled) => {
      record.ended({ status: error.row.httpStatus, error, usage: null, choices: 0 })
      const response = isCancelled ? shown('cancelled') : shown('failed', error)
      // It may have been deleted meanwhile.
      if (stored.has(id)) stored.keepResponse(id, { response, input })
      // Clients know no event for a cancelled response; the response in it has that status.
      tell('response.failed', response)
    },
    events,
  )
  return events === undefined
    ? jsonReply(200, queued)
    : streamOfEvents(deps, events, http.signal, { next: 0 })
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

/** `GET` with `stream=true`: the events after `startingAfter`, and those that follow. */
export function resumeStream(
  deps: GenerationDeps,
  stored: StoredResponses,
  { id, startingAfter, signal }: { id: string; startingAfter: number; signal: CancelSignal },
): HttpReply {
  const next = startingAfter + 1
  const events = deps.background.eventsOf(id, stored) ?? eventsOfOthers(deps.background, stored, id)
  if (events.from(next) === undefined) {
    const text = 'the oldest events are no longer stored: read the response without `stream`'
    throw invalidField('starting_after', text)
  }
  return streamOfEvents(deps, events, signal, { next, onEnd: deps.background.addReader() })
}

/** Throws `request.invalid_argument` when the response has no events. */
function eventsOfOthers(
  background: BackgroundResponses,
  stored: StoredResponses,
  id: string,
): StoredEvents {
  const events = new StoredEvents(stored, id, (sequence) => {
    const { response } = asItIs(background, stored, id)
    if (response['status'] !== 'failed') return undefined
    return responseEvent('response.failed', sequence, { response })
  })
  if (events.exists) return events
  throw invalidField(
    'stream',
    'only a background response that was created with `stream: true` can be streamed: poll this one',
  )
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
