/**
 * `POST /v1/messages` and `/v1/messages/count_tokens`. The count is made by the model's own tokenizer.
 */
import { parseAnthropicCount, parseAnthropicMessages, readJsonObject } from '../api/index.ts'
import { ANTHROPIC_WRITERS } from './anthropic-writers.ts'
import type { CallRecord } from './call-record.ts'
import { chatJob } from './endpoint-chat.ts'
import { jsonReply } from './endpoint-status.ts'
import { offLoopOf } from './generation-job.ts'
import type { GenerationDeps } from './generation-job.ts'
import { generate } from './generation.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import { chatPrompt } from './prompt.ts'

export async function answerMessages(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const call = parseAnthropicMessages(readJsonObject(http.body, http.headers['content-type']))
  return generate(deps, http, record, chatJob(call, ANTHROPIC_WRITERS))
}

export async function countMessageTokens(
  deps: GenerationDeps,
  http: HttpRequest,
): Promise<HttpReply> {
  const call = parseAnthropicCount(readJsonObject(http.body, http.headers['content-type']))
  const model = deps.registry.known(call.model)
  const { tokenIds } = await chatPrompt(call, await model.text(), offLoopOf(deps, model))
  return jsonReply(200, { input_tokens: tokenIds.length })
}
