/**
 * Determines a chat's limit for thinking tokens, and the text that closes a thought in the model's format.
 */
import type { ChatCall } from '../../api/index.ts'
import { createReasoningParser, thoughtClosingOf } from '../../text/index.ts'
import type { ModelText } from '../../text/index.ts'
import { outputFormatOf } from '../prompt/chat-parser.ts'
import type { PreparedPrompt } from '../prompt/prompt.ts'
import type { ServedModel } from '../models/served-model.ts'
import type { ThinkingLimit } from './thinking-limit.ts'

export function chatThinkingLimit(
  call: ChatCall,
  text: ModelText,
  model: ServedModel,
  prompt: PreparedPrompt,
): ThinkingLimit | null {
  const limit = call.nvext.max_thinking_tokens
  // Guided output contains no thinking.
  if (limit === undefined || call.sampling.guided !== undefined) return null
  const name = outputFormatOf(text, model).reasoning
  if (name === null) return null
  const options = prompt.text === undefined ? {} : { promptText: prompt.text }
  const createParser = () => createReasoningParser(name, options)
  const first = createParser()
  const closing = thoughtClosingOf(name)
  if (first === null || closing === null) return null
  return { limit, model: text, closing, createParser: () => createParser() ?? first }
}
