/**
 * What all parts of one reply have in common: id, time, model, and the words for its end.
 */
import type { FinishReason, Usage } from '../../request/index.ts'

export interface ReplyHead {
  /** With its prefix, for example `chatcmpl-…`. */
  readonly id: string
  /** Seconds since 1970. */
  readonly created: number
  readonly model: string
}

export type ClientFinishReason = 'stop' | 'length' | 'content_filter' | 'tool_calls'

/** An output that was cut off is cut off, also when a tool call was in it. */
export function clientFinishReason(finish: FinishReason, calledTools = false): ClientFinishReason {
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

/** What a reply cost. */
export interface ReplyUsage extends Usage {
  /** Of the completion's tokens. */
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
