/**
 * The token ids of a forwarded conversation, when the model's tokenizer and template are available here. The
 * router can then match them with the blocks that the engine announces.
 */
import {
  parseAnthropicMessages,
  parseChatRequest,
  parseCompletionRequest,
  readJsonObject,
} from '../../api/index.ts'
import { offLoopOf } from '../generation/generation-job.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpRequest } from '../http/http-exchange.ts'
import type { ServedModel } from '../models/served-model.ts'
import { chatPrompt, completionPrompts, withinCount } from '../prompt/prompt.ts'

/** Null: the conversation cannot be tokenised, for example because of an image. */
export async function tokenizedPrompt(
  deps: GenerationDeps,
  model: ServedModel,
  { body, headers, path }: HttpRequest,
): Promise<Uint32Array | null> {
  try {
    const fields = readJsonObject(body, headers['content-type'])
    const text = await model.text()
    // What is many times too long is left to the engine, which refuses it.
    const offLoop = withinCount(offLoopOf(deps, model, text), model.contextLength, 'prompt')
    if (path === '/v1/chat/completions') {
      return (await chatPrompt(parseChatRequest(fields), text, offLoop)).tokenIds
    }
    if (path === '/v1/messages') {
      return (await chatPrompt(parseAnthropicMessages(fields), text, offLoop)).tokenIds
    }
    if (path === '/v1/completions') {
      const call = parseCompletionRequest(fields)
      const [first] = await completionPrompts(call.prompts.slice(0, 1), call, text, offLoop)
      return first?.tokenIds ?? null
    }
    return null
  } catch {
    // The engine may accept what this parser does not; then tokens estimated from bytes are used.
    return null
  }
}
