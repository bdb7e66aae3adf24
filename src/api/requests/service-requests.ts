/**
 * Bodies of the smaller endpoints: busy thresholds, tokenize, detokenize.
 */
import { z } from 'zod'
import { chatMessage, messageSchema } from '../fields/chat-message.ts'
import type { ChatMessage } from '../fields/chat-message.ts'
import { invalid } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'

export const busyThresholdSchema = z.strictObject({
  model: z.string(),
  active_decode_blocks_threshold: z.number().min(0).max(1).optional(),
  active_prefill_tokens_threshold: z.int().min(0).optional(),
  active_prefill_tokens_threshold_frac: z.number().min(0).optional(),
})

interface BusyThresholdCall {
  readonly model: string
  /** Only what was named; null leaves a value as it is. */
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

export const tokenizeSchema = z.strictObject({
  model: z.string().optional(),
  prompt: z.string().optional(),
  messages: z.array(messageSchema).min(1).optional(),
  add_special_tokens: z.boolean().optional(),
  add_generation_prompt: z.boolean().optional(),
  return_token_strs: z.boolean().optional(),
})

export interface TokenizeCall {
  readonly model?: string
  readonly prompt: string
  readonly messages?: readonly ChatMessage[]
  readonly addSpecialTokens: boolean
  readonly addGenerationPrompt: boolean
  readonly withTexts: boolean
}

export function parseTokenizeRequest(body: Record<string, unknown>): TokenizeCall {
  const fields = checked(tokenizeSchema, withoutNulls(body))
  if ((fields.prompt === undefined) === (fields.messages === undefined)) {
    throw invalid('prompt', 'give either `prompt` or `messages`')
  }
  return {
    ...given({ model: fields.model, messages: fields.messages?.map(chatMessage) }),
    prompt: fields.prompt ?? '',
    addSpecialTokens: fields.add_special_tokens ?? true,
    addGenerationPrompt: fields.add_generation_prompt ?? true,
    withTexts: fields.return_token_strs ?? false,
  }
}

/** They become text on the event loop. */
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
