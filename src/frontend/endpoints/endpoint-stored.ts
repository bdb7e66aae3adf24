/**
 * Stored responses: read, delete, cancel, list their input items. And conversations.
 */
import { asItIs, cancelInBackground, resumeStream } from './background-response.ts'
import {
  PAGE_LIMITS,
  invalidField,
  parseConversation,
  parseItems,
  parsePage,
  parseResponseQuery,
  readJsonObject,
} from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpCall } from '../http/http-call.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { createRequestId } from '../http/request-id.ts'
import { dropEvents } from '../state/event-log.ts'
import { StoredResponses } from '../state/stored-responses.ts'
import type { Conversation } from '../state/stored-responses.ts'
import { jsonReply } from './endpoint-status.ts'
import { pageReply } from './pages.ts'

/** Throws `runtime.not_implemented` when responses are not stored. */
export function storedOf(
  { state }: GenerationDeps,
  { caller }: Pick<HttpCall, 'caller'>,
): StoredResponses {
  if (state !== undefined) return new StoredResponses(state, caller)
  throw new BatonError(
    'runtime.not_implemented',
    'this server does not store responses: start it with --state',
  )
}

export function readResponse(deps: GenerationDeps, call: HttpCall): HttpReply {
  const stored = storedOf(deps, call)
  const { response } = asItIs(deps.background, stored, call.name)
  const { stream, startingAfter } = parseResponseQuery(call.head.query)
  if (!stream) return jsonReply(200, response)
  return resumeStream(deps, stored, { id: call.name, startingAfter, signal: call.head.signal })
}

export function listInput(deps: GenerationDeps, call: HttpCall): HttpReply {
  const { input } = asItIs(deps.background, storedOf(deps, call), call.name)
  return listReply(input, call.head.query)
}

export function deleteResponse(deps: GenerationDeps, call: HttpCall): HttpReply {
  const stored = storedOf(deps, call)
  stored.delete(call.name, 'response')
  dropEvents(stored, call.name)
  deps.background.cancel(call.name, stored)
  return jsonReply(200, { id: call.name, object: 'response', deleted: true })
}

/** A response with a connection is cancelled by closing the connection. */
export function cancelResponse(deps: GenerationDeps, call: HttpCall): HttpReply {
  const stored = storedOf(deps, call)
  stored.response(call.name)
  return cancelInBackground(deps.background, stored, call.name)
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

export function readConversation(deps: GenerationDeps, call: HttpCall): HttpReply {
  return jsonReply(200, conversationObject(storedOf(deps, call).conversation(call.name)))
}

export function listItems(deps: GenerationDeps, call: HttpCall): HttpReply {
  return listReply(storedOf(deps, call).conversation(call.name).items, call.head.query)
}

export function readItem(deps: GenerationDeps, call: HttpCall): HttpReply {
  const conversation = storedOf(deps, call).conversation(call.name)
  return jsonReply(200, itemOf(conversation, call.names[1]!))
}

/** Replaces the metadata. */
export function changeConversation(
  deps: GenerationDeps,
  http: HttpRequest,
  call: HttpCall,
): HttpReply {
  const stored = storedOf(deps, call)
  const conversation = stored.conversation(call.name)
  const { metadata } = parseConversation(readJsonObject(http.body, http.headers['content-type']))
  const changed = { ...conversation, metadata: metadata ?? conversation.metadata }
  stored.keepConversation(changed)
  return jsonReply(200, conversationObject(changed))
}

export function addItems(deps: GenerationDeps, http: HttpRequest, call: HttpCall): HttpReply {
  const stored = storedOf(deps, call)
  stored.conversation(call.name)
  const given = parseItems(readJsonObject(http.body, http.headers['content-type']))
  const items = withIds(deps, given)
  stored.append(call.name, items)
  return listReply(items)
}

export function deleteConversation(deps: GenerationDeps, call: HttpCall): HttpReply {
  storedOf(deps, call).delete(call.name, 'conversation')
  return jsonReply(200, { id: call.name, object: 'conversation.deleted', deleted: true })
}

export function deleteItem(deps: GenerationDeps, call: HttpCall): HttpReply {
  const stored = storedOf(deps, call)
  const conversation = stored.conversation(call.name)
  const gone = itemOf(conversation, call.names[1]!)
  const changed = { ...conversation, items: conversation.items.filter((item) => item !== gone) }
  stored.keepConversation(changed)
  return jsonReply(200, conversationObject(changed))
}

function conversationObject({ id, createdSeconds, metadata }: Conversation): unknown {
  return { id, object: 'conversation', created_at: createdSeconds, metadata }
}

/** Adds ids to items of a client that have none, because a list names each item. */
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
  throw invalidField('item_id', `conversation \`${id}\` has no item with this id`)
}

/** All items in their order, unless the query asks for fewer or another order. */
function listReply(items: readonly unknown[], query = ''): HttpReply {
  const page = parsePage(
    /(?:^|&)order=/.test(query) ? query : `${query}&order=asc`,
    PAGE_LIMITS.items,
  )
  const withId = items.map((item) => ({ id: idOf(item), item }))
  return pageReply(withId.toReversed(), page, ({ item }) => item)
}

function idOf(item: unknown): string {
  const { id } = item as { readonly id?: unknown }
  return typeof id === 'string' ? id : ''
}
