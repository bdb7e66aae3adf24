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
import type { TokenTexts } from '../../api/index.ts'
import { CollectedReply } from './collected-reply.ts'
import type { ReplyFormat, StreamedLogprobs } from './reply-format.ts'
import type { ReplyWriters } from './reply-writer.ts'
import { StreamedReply } from './streamed-reply.ts'

const CHAT_FORMAT: ReplyFormat = {
  chunkObject: 'chat.completion.chunk',
  chunks: (head, options) => new ChatChoiceChunks(head, options),
  streamedLogprobs: (count, tokenTexts) => (tokens) => chatLogprobsJson(tokens, count, tokenTexts),
  logprobs: (tokens, count, tokenTexts) => ({
    content: chatLogprobsEntries(tokens, count, tokenTexts),
    refusal: null,
  }),
  whole: chatReplyJson,
}

const COMPLETION_FORMAT: ReplyFormat = {
  chunkObject: 'text_completion',
  chunks: (head, options) => new CompletionChoiceChunks(head, options),
  streamedLogprobs: streamedCompletionLogprobs,
  logprobs: (tokens, count, tokenTexts, echoed) =>
    completionLogprobs(tokens, count, tokenTexts, 0, echoed),
  whole: completionReplyJson,
}

/**
 * The offsets follow from the tokens and not from the text sent so far, because the text of a token may be held back
 * longer than the token: until a character is whole, or no stop text can begin with it.
 */
function streamedCompletionLogprobs(count: number, tokenTexts: TokenTexts): StreamedLogprobs {
  let offset = 0
  return (tokens, echoed) => {
    const lists = completionLogprobs(tokens, count, tokenTexts, offset, echoed)
    for (const text of lists.tokens) offset += text.length
    return asciiJson(lists)
  }
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
