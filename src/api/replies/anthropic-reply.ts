/** Messages, events and errors in the format of the Anthropic API. */
import { isRecord } from '../../base/index.ts'
import type { BatonError, ErrorClass } from '../../base/index.ts'
import type { FinishReason, Usage } from '../../request/index.ts'
import { clientMessage } from '../fields/client-message.ts'
import { asciiJson, asciiText, quoteJson } from '../fields/json-escape.ts'
import type { ErrorReply } from './error-reply.ts'
import { errorReply } from './error-reply.ts'
import type { ReplyHead } from './reply-head.ts'
import type { ToolCallReply } from './whole-reply.ts'

export interface AnthropicEnd {
  readonly finish: FinishReason
  readonly stopReason?: number | string
  readonly calledTools: boolean
}

function stopFields(end: AnthropicEnd): { stop_reason: string; stop_sequence: string | null } {
  // Takes precedence, because a call that was cut off must not be executed.
  if (end.finish === 'length') return { stop_reason: 'max_tokens', stop_sequence: null }
  if (end.calledTools) return { stop_reason: 'tool_use', stop_sequence: null }
  if (end.finish === 'content_filter') return { stop_reason: 'refusal', stop_sequence: null }
  return typeof end.stopReason === 'string'
    ? { stop_reason: 'stop_sequence', stop_sequence: end.stopReason }
    : { stop_reason: 'end_turn', stop_sequence: null }
}

/** Cached tokens are counted separately. */
function anthropicUsage(usage: Usage): Record<string, number> {
  const cached = usage.cachedTokens ?? 0
  return {
    input_tokens: usage.promptTokens - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: usage.completionTokens,
  }
}

/** Without content: for `message_start`, and as the frame for `anthropicMessageJson`. */
export function anthropicMessage(
  head: ReplyHead,
  end: AnthropicEnd | null,
  usage: Usage,
): Record<string, unknown> {
  return {
    id: head.id,
    type: 'message',
    role: 'assistant',
    model: head.model,
    content: [],
    ...(end === null ? { stop_reason: null, stop_sequence: null } : stopFields(end)),
    usage: anthropicUsage(usage),
  }
}

/** The whole message as JSON; `blocks` are JSON texts. */
export function anthropicMessageJson(
  head: ReplyHead,
  blocks: readonly string[],
  end: AnthropicEnd | null,
  usage: Usage,
): string {
  // Inside a string the quotes would be escaped, so the first match is the field.
  const content = `"content":[${blocks.join(',')}]`
  return asciiJson(anthropicMessage(head, end, usage)).replace('"content":[]', () => content)
}

/** A `tool_use` block as JSON. The input is the model's text, because parsing would lose digits of large integers. */
export function toolUseJson({ id, name, arguments: text }: ToolCallReply): string {
  const head = asciiJson({ type: 'tool_use', id, name })
  return `${head.slice(0, -1)},"input":${inputJson(text)}}`
}

/** A call that was cut off by the token limit gets an empty input, because its members may be incomplete. */
function inputJson(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? asciiText(text) : asciiText(`{"value":${text}}`)
  } catch {
    return '{}'
  }
}

export function anthropicEvent(
  type: string,
  fields: Readonly<Record<string, unknown>> = {},
): string {
  return `event: ${type}\ndata: ${asciiJson({ type, ...fields })}\n\n`
}

/** The part of a text delta before its text; it changes once per block. */
export function textDeltaOpening(index: number, kind: 'text_delta' | 'thinking_delta'): string {
  const field = kind === 'text_delta' ? 'text' : 'thinking'
  return `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":"${kind}","${field}":`
}

export function textDelta(opening: string, text: string): string {
  return `${opening}${quoteJson(text)}}}\n\n`
}

export function messageDelta(end: AnthropicEnd, usage: Usage): string {
  return anthropicEvent('message_delta', { delta: stopFields(end), usage: anthropicUsage(usage) })
}

const TYPE_OF_CLASS: Partial<Record<ErrorClass, string>> = {
  InvalidRequest: 'invalid_request_error',
  PayloadTooLarge: 'request_too_large',
  UnsupportedMedia: 'invalid_request_error',
  Conflict: 'invalid_request_error',
  Unauthenticated: 'authentication_error',
  PermissionDenied: 'permission_error',
  NotFound: 'not_found_error',
  RateLimited: 'rate_limit_error',
  CapacityExhausted: 'overloaded_error',
  Unavailable: 'overloaded_error',
  DeadlineExceeded: 'timeout_error',
}

function anthropicError(error: BatonError): Record<string, unknown> {
  const { stage, param, clientDetail } = error.data
  return {
    type: 'error',
    error: {
      type: TYPE_OF_CLASS[error.row.class] ?? 'api_error',
      message: clientMessage(error),
      code: error.code,
      ...(typeof stage === 'string' ? { stage } : {}),
      // The Anthropic SDK compares these values to continue without the feature.
      ...(typeof clientDetail === 'string'
        ? { details: { error_code: clientDetail, unsupported: [param] } }
        : {}),
    },
  }
}

export function anthropicErrorReply(error: BatonError, requestId: string): ErrorReply {
  return {
    ...errorReply(error),
    body: asciiJson({ ...anthropicError(error), request_id: requestId }),
  }
}

export function anthropicErrorEvent(error: BatonError): string {
  return `event: error\ndata: ${asciiJson(anthropicError(error))}\n\n`
}
