/**
 * The differences between a chat message and a completion in how generated text is shown.
 */
import type {
  ChoiceChunks,
  ReplyHead,
  ScoredPrompt,
  TokenTexts,
  WholeReply,
} from '../../api/index.ts'
import type { TokenLogprobs } from '../../request/index.ts'

/** JSON text for one chunk; called for each chunk of a choice in turn. */
export type StreamedLogprobs = (tokens: readonly TokenLogprobs[], echoed?: ScoredPrompt) => string

export interface ReplyFormat {
  readonly chunkObject: 'chat.completion.chunk' | 'text_completion'
  chunks(head: ReplyHead, options: { index: number; includeUsage: boolean }): ChoiceChunks
  /** For one choice of a stream. */
  streamedLogprobs(count: number, tokenTexts: TokenTexts): StreamedLogprobs
  /** Value for a whole reply. */
  logprobs(
    tokens: readonly TokenLogprobs[],
    count: number,
    tokenTexts: TokenTexts,
    echoed?: ScoredPrompt,
  ): unknown
  whole(reply: WholeReply): string
}
