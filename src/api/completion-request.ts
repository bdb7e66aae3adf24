/**
 * `POST /v1/completions`: schema, and the call as a value. A prompt is text or token ids, one or several.
 */
import { z } from 'zod'
import {
  CHOICES_MAX,
  generationFields,
  generationOptions,
  invalid,
  stripTransferFields,
  unsupported,
} from './generation-fields.ts'
import type { GenerationOptions } from './generation-fields.ts'
import { given, withoutNulls } from './plain-fields.ts'
import { checked } from './schema-check.ts'

const LOGPROBS_MAX = 5
const BEST_OF_MAX = 20

const tokenIds = z.array(z.int().min(0).max(0xffffffff)).min(1)

export const completionRequestSchema = z.strictObject({
  ...generationFields,
  prompt: z.union(
    [z.string(), tokenIds, z.array(z.string()).min(1), z.array(tokenIds).min(1)],
    'must be a text, texts, token ids, or lists of token ids',
  ),
  echo: z.boolean().optional(),
  logprobs: z.int().min(0).max(LOGPROBS_MAX).optional(),
  best_of: z.int().min(0).max(BEST_OF_MAX).optional(),
  suffix: z.string().optional(),
})

export type Prompt = string | Uint32Array

interface CompletionCall extends GenerationOptions {
  readonly prompts: readonly Prompt[]
  readonly echo: boolean
}

export function parseCompletionRequest(body: Record<string, unknown>): CompletionCall {
  const fields = checked(completionRequestSchema, withoutNulls(stripTransferFields(body)))
  const prompts = promptsOf(fields.prompt)
  const choices = fields.n ?? 1
  if (fields.suffix !== undefined && fields.suffix !== '') throw unsupported('suffix')
  if ((fields.best_of ?? 0) > 1 && fields.best_of !== choices) {
    throw unsupported('best_of', `other than \`n\` (${choices}) is not supported by this server`)
  }
  if (prompts.length * choices > CHOICES_MAX) {
    throw invalid('n', `prompts × n is ${prompts.length * choices}, the limit is ${CHOICES_MAX}`)
  }
  if (fields.echo === true && fields.logprobs !== undefined) {
    throw unsupported('echo', 'together with `logprobs` is not supported by this server')
  }
  return {
    ...generationOptions(fields, {
      maxTokens: fields.max_tokens,
      output: given({ logprobs: fields.logprobs }),
    }),
    prompts,
    echo: fields.echo ?? false,
  }
}

function promptsOf(prompt: z.infer<typeof completionRequestSchema>['prompt']): Prompt[] {
  if (typeof prompt === 'string') return [prompt]
  const list: readonly (string | number | number[])[] = prompt
  if (typeof list[0] === 'number') return [Uint32Array.from(list as number[])]
  return list.map((entry) =>
    typeof entry === 'string' ? entry : Uint32Array.from(entry as number[]),
  )
}
