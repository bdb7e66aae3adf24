/**
 * `POST /v1/chat/completions`.
 */
import { parseChatRequest, readJsonObject } from '../api/index.ts'
import type { ChatCall } from '../api/index.ts'
import type { CallRecord } from './call-record.ts'
import { chatParser } from './chat-parser.ts'
import { chatThinkingLimit } from './chat-thinking.ts'
import { generate } from './generation.ts'
import type { GenerationDeps, GenerationJob } from './generation-job.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import { chatPrompt } from './prompt.ts'
import type { ReplyWriters } from './reply-writer.ts'
import { CHAT_WRITERS } from './openai-writers.ts'

/** A chat call, shown as the given API shows it. */
export function chatJob(
  call: ChatCall,
  writers: ReplyWriters = CHAT_WRITERS,
): GenerationJob<ChatCall> {
  return {
    call,
    writers,
    promptParam: 'messages',
    parser: (text, model, prompt) => chatParser(call, text, model, prompt),
    thinkingLimit: (text, model, prompt) => chatThinkingLimit(call, text, model, prompt),
    nextTurn: async (answer, text, offLoop) =>
      await chatPrompt(
        { ...call, messages: [...call.messages, { role: 'assistant', content: answer }] },
        text,
        offLoop,
        { addGenerationPrompt: false },
      ),
    prompts: (text, offLoop) => {
      const prompt = chatPrompt(call, text, offLoop)
      return prompt instanceof Promise ? prompt.then((only) => [only]) : [prompt]
    },
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
