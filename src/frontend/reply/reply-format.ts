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

export interface ReplyFormat {
  readonly chunkObject: 'chat.completion.chunk' | 'text_completion'
  chunks(head: ReplyHead, options: { index: number; includeUsage: boolean }): ChoiceChunks
  /** JSON text for one chunk. `offset`: characters of the choice's text before it. */
  logprobsJson(
    tokens: readonly TokenLogprobs[],
    count: number,
    tokenTexts: TokenTexts,
    offset: number,
    echoed?: ScoredPrompt,
  ): string
  /** Value for a whole reply. */
  logprobs(
    tokens: readonly TokenLogprobs[],
    count: number,
    tokenTexts: TokenTexts,
    echoed?: ScoredPrompt,
  ): unknown
  whole(reply: WholeReply): string
}
