/**
 * `POST /v1/responses`, and its token count.
 */
import {
  itemsOf,
  parseResponsesRequest,
  readJsonObject,
  takeResponsesState,
  withReferredItems,
} from '../../api/index.ts'
import { answerInBackground } from './background-response.ts'
import { storedOf, withIds } from './endpoint-stored.ts'
import { jsonReply } from './endpoint-status.ts'
import { chatPrompt, withinCount } from '../prompt/prompt.ts'
import { answerMediaAtEngine } from '../forward/forward-answer.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { chatJob } from './endpoint-chat.ts'
import { offLoopOf } from '../generation/generation-job.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import { generate } from '../generation/generation.ts'
import { refuseOtherModels } from '../access/tenant-rules.ts'
import type { Caller } from '../access/caller.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { itemWith } from '../state/stored-responses.ts'
import type { StoredResponses } from '../state/stored-responses.ts'
import { responsesWriters } from '../reply/responses-writers.ts'

export async function answerResponses(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const fields = readJsonObject(http.body, http.headers['content-type'])
  const forwarded = answerMediaAtEngine(deps, http, record, fields)
  if (forwarded !== null) return await forwarded
  if (deps.state === undefined) {
    const { chat, echo, ...tools } = parseResponsesRequest(fields)
    return generate(deps, http, record, chatJob(chat, responsesWriters(echo, tools), 'input'))
  }
  return await answerStored(deps, http, record, fields)
}

/** Adds the earlier turns to the input, and stores the response for later turns. */
async function answerStored(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  fields: Record<string, unknown>,
): Promise<HttpReply> {
  const stored = storedOf(deps, record)
  const { own, before, store, background, previousResponseId, conversationId } = withState(
    stored,
    fields,
  )
  const { chat, echo, ...tools } = parseResponsesRequest(fields)
  const said = {
    ...echo,
    store,
    background,
    ...(previousResponseId === undefined ? {} : { previous_response_id: previousResponseId }),
    ...(conversationId === undefined ? {} : { conversation: { id: conversationId } }),
  }
  const onEnded = (response: Readonly<Record<string, unknown>>): void => {
    const input = withIds(deps, own)
    // A background response may have been cancelled or deleted before its last token.
    if (background && !isAwaited(stored, String(response['id']))) return
    if (store)
      stored.keepResponse(String(response['id']), { response, input: [...before, ...input] })
    if (conversationId === undefined) return
    stored.append(conversationId, [...input, ...(response['output'] as readonly unknown[])])
  }
  if (!background) {
    const writers = responsesWriters(said, tools, { onEnded })
    return generate(deps, http, record, chatJob(chat, writers, 'input'))
  }
  const input = [...before, ...withIds(deps, own)]
  return answerInBackground(deps, http, record, {
    chat,
    echo: said,
    input,
    writersOf: (events) => responsesWriters(said, tools, { onEnded, events }),
    stored,
  })
}

/** Inserts the earlier turns and the items that are only referenced into the input. */
function withState(stored: StoredResponses, fields: Record<string, unknown>) {
  const state = takeResponsesState(fields)
  const { previousResponseId, conversationId } = state
  const before =
    previousResponseId !== undefined
      ? stored.turnsOf(previousResponseId)
      : conversationId !== undefined
        ? stored.conversation(conversationId).items
        : []
  const own = withReferredItems(
    itemsOf(fields['input']),
    (id) => itemWith(before, id) ?? stored.outputItem(id),
  )
  if (before.length > 0 || Array.isArray(fields['input'])) fields['input'] = [...before, ...own]
  return { ...state, own, before }
}

function isAwaited(stored: StoredResponses, id: string): boolean {
  return stored.has(id) && stored.response(id).response['status'] === 'in_progress'
}

/** Counted with the model's own tokenizer. */
export async function countResponseTokens(
  deps: GenerationDeps,
  http: HttpRequest,
  caller: Caller,
): Promise<HttpReply> {
  const fields = readJsonObject(http.body, http.headers['content-type'])
  if (deps.state !== undefined) withState(storedOf(deps, { caller }), fields)
  const { chat } = parseResponsesRequest(fields)
  const model = deps.registry.names.known(chat.model)
  refuseOtherModels(caller, [chat.model ?? model.name, model.name])
  const text = await model.text()
  const limited = withinCount(offLoopOf(deps, model, text), model.contextLength, 'input')
  const { tokenIds } = await chatPrompt(chat, text, limited, { param: 'input' })
  return jsonReply(200, { object: 'response.input_tokens', input_tokens: tokenIds.length })
}
