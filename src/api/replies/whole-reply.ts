/** Replies that are not streamed, as JSON text. */
import { asciiJson, quoteJson } from '../fields/json-escape.ts'
import { usageJson } from './reply-head.ts'
import type { ClientFinishReason, ReplyHead, ReplyUsage } from './reply-head.ts'

export interface ToolCallReply {
  readonly id: string
  readonly name: string
  /** JSON text. */
  readonly arguments: string
  /** For a custom tool: the decoded input text. */
  readonly input?: string
}

export interface WholeChoice {
  readonly index: number
  readonly text: string
  readonly reasoning?: string
  readonly toolCalls?: readonly ToolCallReply[]
  readonly finish: ClientFinishReason
  /** In the format of the requested API. */
  readonly logprobs?: unknown
  readonly promptLogprobs?: unknown
  /** With `return_token_ids`. */
  readonly tokenIds?: readonly number[]
  readonly promptTokenIds?: readonly number[]
}

/** `nvext` is JSON text. */
export interface WholeReply {
  readonly head: ReplyHead
  readonly choices: readonly WholeChoice[]
  readonly usage: ReplyUsage
  readonly nvext?: string
}

export function chatReplyJson(reply: WholeReply): string {
  const choices = reply.choices.map((choice) => ({
    index: choice.index,
    message: {
      role: 'assistant',
      content: choice.text === '' && choice.toolCalls !== undefined ? null : choice.text,
      refusal: null,
      ...(choice.reasoning === undefined ? {} : { reasoning_content: choice.reasoning }),
      ...(choice.toolCalls === undefined ? {} : { tool_calls: choice.toolCalls.map(toolCallJson) }),
    },
    logprobs: choice.logprobs ?? null,
    finish_reason: choice.finish,
    ...(choice.tokenIds === undefined ? {} : { token_ids: choice.tokenIds }),
  }))
  const { promptLogprobs: scored, promptTokenIds: ids } = reply.choices[0] ?? {}
  return envelope('chat.completion', reply, choices, {
    ...(scored === undefined ? {} : { prompt_logprobs: scored }),
    ...(ids === undefined ? {} : { prompt_token_ids: ids }),
  })
}

export function completionReplyJson(reply: WholeReply): string {
  const choices = reply.choices.map((choice) => ({
    index: choice.index,
    text: choice.text,
    logprobs: choice.logprobs ?? null,
    finish_reason: choice.finish,
    ...(choice.promptLogprobs === undefined ? {} : { prompt_logprobs: choice.promptLogprobs }),
    ...(choice.tokenIds === undefined ? {} : { token_ids: choice.tokenIds }),
    ...(choice.promptTokenIds === undefined ? {} : { prompt_token_ids: choice.promptTokenIds }),
  }))
  return envelope('text_completion', reply, choices)
}

function toolCallJson({ id, name, arguments: text, input }: ToolCallReply): object {
  return input === undefined
    ? { id, type: 'function', function: { name, arguments: text } }
    : { id, type: 'custom', custom: { name, input } }
}

/** The first delta of a tool call (id and name), as JSON text of the array of deltas. */
export function toolCallStartJson(
  index: number,
  { id, name }: { readonly id: string; readonly name: string },
  isCustom: boolean,
): string {
  const call = isCustom
    ? { type: 'custom', custom: { name, input: '' } }
    : { type: 'function', function: { name, arguments: '' } }
  return asciiJson([{ index, id, ...call }])
}

/** A further piece of the arguments, or of the input of a custom tool. */
export function toolCallDeltaJson(index: number, text: string, isCustom: boolean): string {
  const [kind, field] = isCustom ? ['custom', 'input'] : ['function', 'arguments']
  return `[{"index":${index},"${kind}":{"${field}":${quoteJson(text)}}}]`
}

function envelope(
  object: string,
  reply: WholeReply,
  choices: readonly unknown[],
  more: Readonly<Record<string, unknown>> = {},
): string {
  const { head, usage, nvext } = reply
  const start = asciiJson({
    id: head.id,
    object,
    created: head.created,
    model: head.model,
    choices,
    ...more,
  }).slice(0, -1)
  return `${start},"usage":${usageJson(usage)}${nvext === undefined ? '' : `,"nvext":${nvext}`}}`
}
