/**
 * `POST /v1/messages` and `/v1/messages/count_tokens`. Tokens are counted with the model's own tokenizer.
 */
import { parseAnthropicCount, parseAnthropicMessages, readJsonObject } from '../../api/index.ts'
import { ANTHROPIC_WRITERS } from '../reply/anthropic-writers.ts'
import { answerMediaAtEngine } from '../forward/forward-answer.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { chatJob } from './endpoint-chat.ts'
import { jsonReply } from './endpoint-status.ts'
import { offLoopOf } from '../generation/generation-job.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import { generate } from '../generation/generation.ts'
import { refuseOtherModels } from '../access/tenant-rules.ts'
import type { Caller } from '../access/caller.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { chatPrompt, withinCount } from '../prompt/prompt.ts'

export async function answerMessages(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const fields = readJsonObject(http.body, http.headers['content-type'])
  const forwarded = answerMediaAtEngine(deps, http, record, fields)
  if (forwarded !== null) return await forwarded
  const call = parseAnthropicMessages(fields)
  return generate(deps, http, record, chatJob(call, ANTHROPIC_WRITERS))
}

export async function countMessageTokens(
  deps: GenerationDeps,
  http: HttpRequest,
  caller: Caller,
): Promise<HttpReply> {
  const call = parseAnthropicCount(readJsonObject(http.body, http.headers['content-type']))
  const model = deps.registry.names.known(call.model)
  refuseOtherModels(caller, [call.model ?? model.name, model.name])
  const text = await model.text()
  const limited = withinCount(offLoopOf(deps, model, text), model.contextLength, 'messages')
  const { tokenIds } = await chatPrompt(call, text, limited)
  return jsonReply(200, { input_tokens: tokenIds.length })
}
