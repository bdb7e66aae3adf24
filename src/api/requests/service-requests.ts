/** Request bodies of the smaller endpoints: busy thresholds, tokenize, detokenize. */
import { z } from 'zod'
import { messageSchema } from '../fields/chat-message.ts'
import { toolsSchema } from '../fields/chat-tools.ts'
import { invalid } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { fieldsSchema } from '../fields/record-schema.ts'
import { checked } from '../fields/schema-check.ts'
import { parseChatRequest } from './chat-request.ts'
import type { ChatCall } from './chat-request.ts'

export const busyThresholdSchema = z.strictObject({
  model: z.string(),
  active_decode_blocks_threshold: z.number().min(0).max(1).optional(),
  active_prefill_tokens_threshold: z.int().min(0).optional(),
  active_prefill_tokens_threshold_frac: z.number().min(0).optional(),
})

interface BusyThresholdCall {
  readonly model: string
  /** Only the fields that were given; null leaves a value unchanged. */
  readonly update: {
    readonly activeDecodeBlocks?: number
    readonly activePrefillTokens?: number
    readonly activePrefillTokensShare?: number
  }
}

export function parseBusyThreshold(body: Record<string, unknown>): BusyThresholdCall {
  const fields = checked(busyThresholdSchema, withoutNulls(body))
  return {
    model: fields.model,
    update: given({
      activeDecodeBlocks: fields.active_decode_blocks_threshold,
      activePrefillTokens: fields.active_prefill_tokens_threshold,
      activePrefillTokensShare: fields.active_prefill_tokens_threshold_frac,
    }),
  }
}

/** Fields that only apply to a chat. */
const chatFields = {
  tools: toolsSchema.optional(),
  add_generation_prompt: z.boolean().optional(),
  continue_final_message: z.boolean().optional(),
  chat_template_kwargs: fieldsSchema.optional(),
}

export const tokenizeSchema = z.strictObject({
  model: z.string().optional(),
  prompt: z.string().optional(),
  messages: z.array(messageSchema).min(1).optional(),
  ...chatFields,
  add_special_tokens: z.boolean().optional(),
  return_token_strs: z.boolean().optional(),
})

export interface TokenizeCall {
  readonly model?: string
  /** A text, or a chat whose rendered prompt is tokenized. */
  readonly prompt: string | ChatCall
  readonly addSpecialTokens: boolean
  readonly withTexts: boolean
}

export function parseTokenizeRequest(body: Record<string, unknown>): TokenizeCall {
  const fields = checked(tokenizeSchema, withoutNulls(body))
  if ((fields.prompt === undefined) === (fields.messages === undefined)) {
    throw invalid('prompt', 'give either `prompt` or `messages`')
  }
  return {
    ...given({ model: fields.model }),
    prompt: fields.prompt === undefined ? chatOf(fields) : plainText(fields.prompt, fields),
    addSpecialTokens: fields.add_special_tokens ?? true,
    withTexts: fields.return_token_strs ?? false,
  }
}

function chatOf(fields: z.infer<typeof tokenizeSchema>): ChatCall {
  const { prompt: _, add_special_tokens: _special, return_token_strs: _texts, ...chat } = fields
  return parseChatRequest(chat)
}

function plainText(prompt: string, fields: Readonly<Record<string, unknown>>): string {
  const named = ['tools', 'continue_final_message', 'chat_template_kwargs'].find(
    (name) => fields[name] !== undefined && fields[name] !== false,
  )
  if (named === undefined) return prompt
  throw invalid(named, 'needs `messages`')
}

/** A limit, because detokenizing blocks the event loop. */
const DETOKENIZE_MAX = 256 * 1024

export const detokenizeSchema = z.strictObject({
  model: z.string().optional(),
  tokens: z.array(z.int().min(0).max(0xffffffff)).max(DETOKENIZE_MAX),
})

interface DetokenizeCall {
  readonly model?: string
  readonly tokens: readonly number[]
}

export function parseDetokenizeRequest(body: Record<string, unknown>): DetokenizeCall {
  const fields = checked(detokenizeSchema, withoutNulls(body))
  return { ...given({ model: fields.model }), tokens: fields.tokens }
}
