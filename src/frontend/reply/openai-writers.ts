/**
 * The formats of generated text in the OpenAI API: a chat message, or a completion.
 */
import {
  ChatChoiceChunks,
  CompletionChoiceChunks,
  asciiJson,
  chatLogprobsEntries,
  chatLogprobsJson,
  chatReplyJson,
  completionLogprobs,
  completionReplyJson,
} from '../../api/index.ts'
import { CollectedReply } from './collected-reply.ts'
import type { ReplyFormat } from './reply-format.ts'
import type { ReplyWriters } from './reply-writer.ts'
import { StreamedReply } from './streamed-reply.ts'

const CHAT_FORMAT: ReplyFormat = {
  chunkObject: 'chat.completion.chunk',
  chunks: (head, options) => new ChatChoiceChunks(head, options),
  logprobsJson: (tokens, count, tokenTexts) => chatLogprobsJson(tokens, count, tokenTexts),
  logprobs: (tokens, count, tokenTexts) => ({
    content: chatLogprobsEntries(tokens, count, tokenTexts),
    refusal: null,
  }),
  whole: chatReplyJson,
}

const COMPLETION_FORMAT: ReplyFormat = {
  chunkObject: 'text_completion',
  chunks: (head, options) => new CompletionChoiceChunks(head, options),
  logprobsJson: (tokens, count, tokenTexts, offset, echoed) =>
    asciiJson(completionLogprobs(tokens, count, tokenTexts, offset, echoed)),
  logprobs: (tokens, count, tokenTexts, echoed) =>
    completionLogprobs(tokens, count, tokenTexts, 0, echoed),
  whole: completionReplyJson,
}

function writersOf(idPrefix: string, format: ReplyFormat): ReplyWriters {
  return {
    idPrefix,
    streamed: (context, annotations) => new StreamedReply(context, format, annotations),
    whole: (context) => new CollectedReply(context, format),
  }
}

export const CHAT_WRITERS = writersOf('chatcmpl-', CHAT_FORMAT)
export const COMPLETION_WRITERS = writersOf('cmpl-', COMPLETION_FORMAT)
