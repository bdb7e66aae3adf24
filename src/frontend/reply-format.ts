/**
 * The two ways to show generated text: as a chat message, or as a completion.
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
} from '../api/index.ts'
import type { ChoiceChunks, ReplyHead, TokenFaces, WholeReply } from '../api/index.ts'
import type { TokenLogprobs } from '../request/index.ts'

export interface ReplyFormat {
  readonly idPrefix: string
  readonly chunkObject: 'chat.completion.chunk' | 'text_completion'
  chunks(head: ReplyHead, options: { index: number; includeUsage: boolean }): ChoiceChunks
  /** JSON text for one chunk. `offset`: characters of the choice's text before it. */
  logprobsJson(
    tokens: readonly TokenLogprobs[],
    count: number,
    faces: TokenFaces,
    offset: number,
  ): string
  /** Value for a whole reply. */
  logprobs(tokens: readonly TokenLogprobs[], count: number, faces: TokenFaces): unknown
  whole(reply: WholeReply): string
}

export const CHAT_FORMAT: ReplyFormat = {
  idPrefix: 'chatcmpl-',
  chunkObject: 'chat.completion.chunk',
  chunks: (head, options) => new ChatChoiceChunks(head, options),
  logprobsJson: (tokens, count, faces) => chatLogprobsJson(tokens, count, faces),
  logprobs: (tokens, count, faces) => ({
    content: chatLogprobsEntries(tokens, count, faces),
    refusal: null,
  }),
  whole: chatReplyJson,
}

export const COMPLETION_FORMAT: ReplyFormat = {
  idPrefix: 'cmpl-',
  chunkObject: 'text_completion',
  chunks: (head, options) => new CompletionChoiceChunks(head, options),
  logprobsJson: (tokens, count, faces, offset) =>
    asciiJson(completionLogprobs(tokens, count, faces, offset)),
  logprobs: (tokens, count, faces) => completionLogprobs(tokens, count, faces, 0),
  whole: completionReplyJson,
}
