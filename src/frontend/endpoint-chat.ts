/**
 * `POST /v1/chat/completions`.
 */
import { parseChatRequest, readJsonObject } from '../api/index.ts'
import type { ChatCall } from '../api/index.ts'
import type { CallRecord } from './call-record.ts'
import { generate } from './generation.ts'
import type { GenerationDeps, GenerationJob } from './generation.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import { chatPrompt } from './prompt.ts'
import { CHAT_WRITERS } from './reply-format.ts'

export function chatJob(call: ChatCall): GenerationJob<ChatCall> {
  return {
    call,
    writers: CHAT_WRITERS,
    promptParam: 'messages',
    prompts: async (text, offLoop) => [await chatPrompt(call, text, offLoop)],
  }
}

export async function answerChat(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const call = parseChatRequest(readJsonObject(http.body, http.headers['content-type']))
  return generate(deps, http, record, chatJob(call))
}
