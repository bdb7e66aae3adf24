/** The response object of `/v1/responses`, and its events as text. */
import { isSendersFault } from '../../base/index.ts'
import type { BatonError } from '../../base/index.ts'
import { clientMessage } from '../fields/client-message.ts'
import { asciiJson, quoteJson } from '../fields/json-escape.ts'
import type { ToolPlace } from '../fields/offered-tools.ts'
import type { ReplyHead, ReplyUsage } from './reply-head.ts'
import type { ToolCallReply } from './whole-reply.ts'

export type ResponseStatus =
  | 'queued'
  | 'in_progress'
  | 'completed'
  | 'incomplete'
  | 'failed'
  | 'cancelled'

interface ResponseParts {
  readonly head: ReplyHead
  readonly echo: Readonly<Record<string, unknown>>
  readonly status: ResponseStatus
  readonly output: readonly unknown[]
  readonly usage?: ReplyUsage
  readonly error?: BatonError
}

export function responseObject(parts: ResponseParts): Record<string, unknown> {
  const { error, head, status, usage } = parts
  return {
    id: head.id,
    object: 'response',
    created_at: head.created,
    status,
    background: false,
    error: error === undefined ? null : failure(error),
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    model: head.model,
    ...parts.echo,
    output: parts.output,
    usage: usage === undefined ? null : usageObject(usage),
  }
}

function failure(error: BatonError): Record<string, unknown> {
  const { stage } = error.data
  return {
    code: failureCode(error),
    message: clientMessage(error),
    ...(typeof stage === 'string' ? { stage } : {}),
  }
}

/** The three codes known to clients of this API. */
function failureCode(error: BatonError): string {
  if (error.row.httpStatus === 429) return 'rate_limit_exceeded'
  return isSendersFault(error.code) ? 'invalid_prompt' : 'server_error'
}

function usageObject(usage: ReplyUsage): Record<string, unknown> {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens ?? 0 },
    output_tokens: usage.completionTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: usage.totalTokens,
  }
}

/** `incomplete`: the item was cut off by the token limit. */
type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

export function messageItem(
  id: string,
  text: string,
  status: ItemStatus,
  logprobs: readonly unknown[] = [],
): Record<string, unknown> {
  return {
    id,
    type: 'message',
    role: 'assistant',
    status,
    content: status === 'in_progress' ? [] : [textPart(text, logprobs)],
  }
}

export function textPart(text: string, logprobs: readonly unknown[] = []): Record<string, unknown> {
  return { type: 'output_text', text, annotations: [], logprobs }
}

export function reasoningItem(
  id: string,
  text: string,
  status: ItemStatus,
): Record<string, unknown> {
  return {
    id,
    type: 'reasoning',
    status,
    summary: [],
    content: text === '' ? [] : [reasoningPart(text)],
  }
}

export function reasoningPart(text: string): Record<string, unknown> {
  return { type: 'reasoning_text', text }
}

export function functionCallItem(
  id: string,
  call: ToolCallReply,
  status: ItemStatus,
  place?: ToolPlace,
): Record<string, unknown> {
  return {
    id,
    type: 'function_call',
    call_id: call.id,
    ...(place ?? { name: call.name }),
    arguments: call.arguments,
    status,
  }
}

/** A call of a tool with text input. */
export function customCallItem(
  id: string,
  call: Omit<ToolCallReply, 'arguments'>,
  input: string,
  status: ItemStatus,
): Record<string, unknown> {
  return { id, type: 'custom_tool_call', call_id: call.id, name: call.name, input, status }
}

/** `fields` must not contain `type` or `sequence_number`. */
export function responseEvent(
  type: string,
  sequence: number,
  fields: Readonly<Record<string, unknown>>,
): string {
  return `event: ${type}\ndata: ${asciiJson({ type, sequence_number: sequence, ...fields })}\n\n`
}

/** The per-token event, built without an object. */
export function responseDeltaEvent(
  type: string,
  sequence: number,
  place: { readonly itemId: string; readonly outputIndex: number },
  delta: string,
  logprobs: readonly unknown[] = [],
): string {
  return `event: ${type}\ndata: {"type":"${type}","sequence_number":${sequence},"item_id":${quoteJson(place.itemId)},"output_index":${place.outputIndex},"content_index":0,"delta":${quoteJson(delta)},"logprobs":${logprobs.length === 0 ? '[]' : asciiJson(logprobs)}}\n\n`
}
