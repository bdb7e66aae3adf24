/**
 * Responses that were stored: read, forget, cancel, list what the model was given. And conversations.
 */
import { asItIs, cancelInBackground } from './background-response.ts'
import {
  invalidField,
  parseConversation,
  parseItems,
  parsePage,
  readJsonObject,
} from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpCall } from '../http/http-call.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { createRequestId } from '../http/request-id.ts'
import { StoredResponses } from '../state/stored-responses.ts'
import type { Conversation } from '../state/stored-responses.ts'
import { jsonReply } from './endpoint-status.ts'
import { pageReply } from './pages.ts'

/** Throws `runtime.not_implemented` where nothing is kept. */
export function storedOf(
  { state }: GenerationDeps,
  { caller }: Pick<HttpCall, 'caller'>,
): StoredResponses {
  if (state !== undefined) return new StoredResponses(state, caller)
  throw new BatonError('runtime.not_implemented', 'responses are not stored by this server')
}

/** `GET /v1/responses/{id}` and `/{id}/input_items`. */
export function readResponse(deps: GenerationDeps, call: HttpCall): HttpReply {
  const { id, rest } = partsOf(call.name)
  const { response, input } = asItIs(deps.background, storedOf(deps, call), id)
  if (rest === '') {
    refuseStream(call)
    return jsonReply(200, response)
  }
  if (rest === 'input_items') return listReply(input, call.head.query)
  throw unknownRoute(call)
}

export function deleteResponse(deps: GenerationDeps, call: HttpCall): HttpReply {
  const stored = storedOf(deps, call)
  stored.delete(call.name, 'response')
  deps.background.cancel(call.name, stored)
  return jsonReply(200, { id: call.name, object: 'response', deleted: true })
}

/** `POST /v1/responses/{id}/cancel`: what has a connection is cancelled by closing it. */
export function cancelResponse(deps: GenerationDeps, call: HttpCall): HttpReply {
  const { id, rest } = partsOf(call.name)
  const stored = storedOf(deps, call)
  // `POST /v1/responses/compact` and the like are routes that there are not, and no ids.
  if (rest === '' && !stored.has(id)) throw unknownRoute(call)
  stored.response(id)
  if (rest === '')
    throw invalidField('response_id', 'a stored response is not changed; expected /cancel')
  if (rest !== 'cancel') throw unknownRoute(call)
  return cancelInBackground(deps.background, stored, id)
}

export function createConversation(
  deps: GenerationDeps,
  http: HttpRequest,
  call: HttpCall,
): HttpReply {
  const asked = parseConversation(readJsonObject(http.body, http.headers['content-type']))
  const conversation: Conversation = {
    id: `conv_${createRequestId(deps.random)}`,
    createdSeconds: Math.floor(deps.clock.epochMs() / 1000),
    metadata: asked.metadata ?? {},
    items: withIds(deps, asked.items ?? []),
  }
  storedOf(deps, call).keepConversation(conversation)
  return jsonReply(200, conversationObject(conversation))
}

/** `GET /v1/conversations/{id}`, `/{id}/items` and `/{id}/items/{item}`. */
export function readConversation(deps: GenerationDeps, call: HttpCall): HttpReply {
  const { id, rest } = partsOf(call.name)
  const conversation = storedOf(deps, call).conversation(id)
  if (rest === '') return jsonReply(200, conversationObject(conversation))
  if (rest === 'items') return listReply(conversation.items, call.head.query)
  return jsonReply(200, itemOf(conversation, itemIdOf(rest, call)))
}

/** `POST /v1/conversations/{id}` sets the metadata, `/{id}/items` adds items. */
export function changeConversation(
  deps: GenerationDeps,
  http: HttpRequest,
  call: HttpCall,
): HttpReply {
  const { id, rest } = partsOf(call.name)
  const stored = storedOf(deps, call)
  const conversation = stored.conversation(id)
  const body = readJsonObject(http.body, http.headers['content-type'])
  if (rest === '') {
    const { metadata } = parseConversation(body)
    const changed = { ...conversation, metadata: metadata ?? conversation.metadata }
    stored.keepConversation(changed)
    return jsonReply(200, conversationObject(changed))
  }
  if (rest !== 'items') throw unknownRoute(call)
  const items = withIds(deps, parseItems(body))
  stored.append(id, items)
  return listReply(items)
}

/** `DELETE /v1/conversations/{id}` and `/{id}/items/{item}`. */
export function deleteConversation(deps: GenerationDeps, call: HttpCall): HttpReply {
  const { id, rest } = partsOf(call.name)
  const stored = storedOf(deps, call)
  if (rest === '') {
    stored.delete(id, 'conversation')
    return jsonReply(200, { id, object: 'conversation.deleted', deleted: true })
  }
  const conversation = stored.conversation(id)
  const gone = itemOf(conversation, itemIdOf(rest, call))
  const changed = { ...conversation, items: conversation.items.filter((item) => item !== gone) }
  stored.keepConversation(changed)
  return jsonReply(200, conversationObject(changed))
}

function conversationObject({ id, createdSeconds, metadata }: Conversation): unknown {
  return { id, object: 'conversation', created_at: createdSeconds, metadata }
}

/** Items of a client may have no id; a list names each. */
export function withIds(
  { random }: Pick<GenerationDeps, 'random'>,
  items: readonly unknown[],
): unknown[] {
  return items.map((item) => ({
    id: `item_${createRequestId(random)}`,
    type: 'message',
    ...(item as object),
  }))
}

function itemOf({ id, items }: Conversation, itemId: string): unknown {
  const found = items.find((item) => (item as { id?: unknown }).id === itemId)
  if (found !== undefined) return found
  throw invalidField('item_id', `conversation \`${id}\` has no item of this id`)
}

function itemIdOf(rest: string, call: HttpCall): string {
  if (rest.startsWith('items/')) return rest.slice('items/'.length)
  throw unknownRoute(call)
}

/** All of them as they came, unless the query asks for less or another order. */
function listReply(items: readonly unknown[], query = ''): HttpReply {
  const page = parsePage(/(?:^|&)order=/.test(query) ? query : `${query}&order=asc`, LIMITS)
  const withId = items.map((item) => ({ id: idOf(item), item }))
  return pageReply(withId.toReversed(), page, ({ item }) => item)
}

const LIMITS = { usual: 10_000, max: 10_000 }

function idOf(item: unknown): string {
  const { id } = item as { readonly id?: unknown }
  return typeof id === 'string' ? id : ''
}

/** A client that waits for events would take an object for their end. */
function refuseStream({ head }: HttpCall): void {
  if (!/(?:^|&)stream=true(?:&|$)/.test(head.query)) return
  throw invalidField('stream', 'a stored response is not streamed: poll it')
}

function partsOf(name: string): { readonly id: string; readonly rest: string } {
  const slash = name.indexOf('/')
  return slash < 0
    ? { id: name, rest: '' }
    : { id: name.slice(0, slash), rest: name.slice(slash + 1) }
}

function unknownRoute({ head }: HttpCall): BatonError {
  return new BatonError('request.not_found', `Route not found: ${head.method} ${head.path}`)
}
