/**
 * The token ids of a forwarded conversation, where the model's tokenizer and template are here: the router finds its
 * blocks among those that the engine announces.
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
import { chatPrompt, completionPrompts } from '../prompt/prompt.ts'

/** Null: there is no form in tokens for it, for example because of an image. */
export async function tokenizedPrompt(
  deps: GenerationDeps,
  model: ServedModel,
  { body, headers, path }: HttpRequest,
): Promise<Uint32Array | null> {
  const offLoop = offLoopOf(deps, model)
  try {
    const fields = readJsonObject(body, headers['content-type'])
    const text = await model.text()
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
    // The engine may understand what this reader does not; then bytes are as good as tokens.
    return null
  }
}
