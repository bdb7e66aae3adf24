/**
 * `POST /v1/chat/completions`.
 */
import { parseChatRequest, readJsonObject } from '../../api/index.ts'
import type { ChatCall } from '../../api/index.ts'
import { answerMediaAtEngine } from '../forward/forward-answer.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { chatParser } from '../prompt/chat-parser.ts'
import { drawableCalls, guidedForModel, guidedParser } from '../prompt/guided-output.ts'
import { chatThinkingLimit } from '../generation/chat-thinking.ts'
import { generate } from '../generation/generation.ts'
import type { GenerationDeps, GenerationJob } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { chatPrompt } from '../prompt/prompt.ts'
import type { ReplyWriters } from '../reply/reply-writer.ts'
import { CHAT_WRITERS } from '../reply/openai-writers.ts'

/** A chat call whose reply has the format of the given API. */
export function chatJob(
  call: ChatCall,
  writers: ReplyWriters = CHAT_WRITERS,
  promptParam: 'messages' | 'input' = 'messages',
): GenerationJob<ChatCall> {
  return {
    call,
    writers,
    promptParam,
    parser: (text, model, prompt) =>
      call.sampling.guided === undefined
        ? chatParser(call, text, model, prompt)
        : guidedParser(call, text, model, prompt),
    guided: (guided, text, model, prompt, relaxed) =>
      guidedForModel(guided, call, text, model, prompt, relaxed),
    drawableCalls: (text, model, prompt) => drawableCalls(call, text, model, prompt),
    thinkingLimit: (text, model, prompt) => chatThinkingLimit(call, text, model, prompt),
    nextTurn: async (answer, text, offLoop) =>
      await chatPrompt(
        { ...call, messages: [...call.messages, { role: 'assistant', content: answer }] },
        text,
        offLoop,
        { addGenerationPrompt: false, param: promptParam },
      ),
    prompts: (text, offLoop) => {
      const prompt = chatPrompt(call, text, offLoop, { param: promptParam })
      return prompt instanceof Promise ? prompt.then((only) => [only]) : [prompt]
    },
  }
}

export async function answerChat(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const fields = readJsonObject(http.body, http.headers['content-type'])
  const forwarded = answerMediaAtEngine(deps, http, record, fields)
  if (forwarded !== null) return await forwarded
  const call = parseChatRequest(fields)
  return generate(deps, http, record, chatJob(call))
}
