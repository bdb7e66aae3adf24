/**
 * `POST /v1/responses`, and its token count.
 */
import { parseResponsesRequest, readJsonObject } from '../api/index.ts'
import { jsonReply } from './endpoint-status.ts'
import { chatPrompt } from './prompt.ts'
import type { CallRecord } from './call-record.ts'
import { chatJob } from './endpoint-chat.ts'
import { offLoopOf } from './generation-job.ts'
import type { GenerationDeps } from './generation-job.ts'
import { generate } from './generation.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import { responsesWriters } from './responses-writers.ts'

export async function answerResponses(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const call = parseResponsesRequest(readJsonObject(http.body, http.headers['content-type']))
  return generate(deps, http, record, chatJob(call.chat, responsesWriters(call.echo)))
}

/** Counted by the model's own tokenizer. */
export async function countResponseTokens(
  deps: GenerationDeps,
  http: HttpRequest,
): Promise<HttpReply> {
  const { chat } = parseResponsesRequest(readJsonObject(http.body, http.headers['content-type']))
  const model = deps.registry.known(chat.model)
  const { tokenIds } = await chatPrompt(chat, await model.text(), offLoopOf(deps, model))
  return jsonReply(200, { object: 'response.input_tokens', input_tokens: tokenIds.length })
}
