/** `POST /v1/completions`: schema, and the call as a value. A prompt is text or token ids, one or several. */
import { z } from 'zod'
import {
  CHOICES_MAX,
  generationFields,
  generationOptions,
  invalid,
  stripNoOps,
  stripTransferFields,
  unsupported,
} from '../fields/generation-fields.ts'
import type { GenerationOptions } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'
import { tokenIdsSchema } from '../fields/token-ids.ts'

const LOGPROBS_MAX = 5
const BEST_OF_MAX = 20

export const completionRequestSchema = z.strictObject({
  ...generationFields,
  prompt: z.union(
    [z.string(), tokenIdsSchema, z.array(z.string()).min(1), z.array(tokenIdsSchema).min(1)],
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
  const fields = checked(
    completionRequestSchema,
    stripNoOps(withoutNulls(stripTransferFields(body)), { add_special_tokens: true }),
  )
  const prompts = promptsOf(fields.prompt)
  const choices = fields.n ?? 1
  if (fields.suffix !== undefined && fields.suffix !== '') throw unsupported('suffix')
  const echo = fields.echo ?? false
  const drawn = Math.max(fields.best_of ?? 0, choices)
  if (prompts.length * drawn > CHOICES_MAX) {
    throw invalid('n', `prompts × n is ${prompts.length * drawn}, the limit is ${CHOICES_MAX}`)
  }
  if ((fields.best_of ?? 0) > 1) refuseBestOf(fields, choices)
  const picks = drawn > choices
  const options = generationOptions(
    { ...fields, n: drawn },
    {
      maxTokens: fields.max_tokens,
      output: given({
        logprobs: fields.logprobs ?? (picks ? 0 : undefined),
        promptLogprobs: echo ? (fields.prompt_logprobs ?? fields.logprobs) : fields.prompt_logprobs,
      }),
    },
  )
  return {
    prompts,
    echo,
    ...options,
    ...given({
      bestOf: picks ? choices : undefined,
      hidesLogprobs: picks && fields.logprobs === undefined ? true : undefined,
      showsPromptLogprobs: fields.prompt_logprobs === undefined ? undefined : true,
    }),
  }
}

/** `best_of` must be at least `n`, and choosing the best of several requires a reply that is not streamed. */
function refuseBestOf(fields: z.infer<typeof completionRequestSchema>, choices: number): void {
  if ((fields.best_of ?? 0) < choices)
    throw invalid('best_of', `must be at least \`n\` (${choices})`)
  if (fields.stream === true && fields.best_of !== choices) {
    throw invalid('best_of', 'requires a reply that is not streamed')
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
