/** What all parts of one reply have in common: id, time, model, finish reason. */
import type { FinishReason, Usage } from '../../request/index.ts'

export interface ReplyHead {
  /** With its prefix, for example `chatcmpl-…`. */
  readonly id: string
  /** Seconds since 1970. */
  readonly created: number
  readonly model: string
}

export type ClientFinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls'

/** An output that was cut off is reported as such, even if it contains a tool call. */
export function clientFinishReason(finish: FinishReason, calledTools: boolean): ClientFinishReason {
  switch (finish) {
    case 'length':
    case 'content_filter':
      return finish
    case 'stop':
    case 'eos':
    case 'cancelled':
      return calledTools ? 'tool_calls' : 'stop'
  }
}

/** The token counts of a reply. */
export interface ReplyUsage extends Usage {
  /** Number of completion tokens that are reasoning. */
  readonly reasoningTokens: number
}

export function usageJson(usage: ReplyUsage): string {
  const { cachedTokens, reasoningTokens } = usage
  const ofPrompt =
    cachedTokens === undefined ? '' : `,"prompt_tokens_details":{"cached_tokens":${cachedTokens}}`
  const ofCompletion =
    reasoningTokens === 0
      ? ''
      : `,"completion_tokens_details":{"reasoning_tokens":${reasoningTokens}}`
  return `{"prompt_tokens":${usage.promptTokens},"completion_tokens":${usage.completionTokens},"total_tokens":${usage.totalTokens}${ofPrompt}${ofCompletion}}`
}
