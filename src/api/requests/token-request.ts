/**
 * `POST /inference/v1/generate`: token ids in, token ids out, in vLLM's format. Without template, tokenizer and
 * parsers; only stop strings are searched in text.
 */
import { z } from 'zod'
import {
  generationFields,
  generationOptions,
  invalid,
  stripNoOps,
  stripTransferFields,
} from '../fields/generation-fields.ts'
import type { GenerationOptions } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'
import { fieldsSchema } from '../fields/record-schema.ts'
import { tokenIdsSchema } from '../fields/token-ids.ts'

const LOGPROBS_MAX = 20

const {
  model,
  stream,
  stream_options,
  cache_salt,
  nvext,
  user,
  // The reply consists only of ids.
  return_token_ids: _ids,
  ...sampling
} = generationFields

export const tokenRequestSchema = z.strictObject({
  model,
  stream,
  stream_options,
  cache_salt,
  nvext,
  user,
  request_id: z.string().optional(),
  token_ids: tokenIdsSchema,
  sampling_params: fieldsSchema,
})

const samplingSchema = z.strictObject({
  ...sampling,
  logprobs: z.int().min(0).max(LOGPROBS_MAX).optional(),
})

interface TokenCall extends GenerationOptions {
  readonly tokenIds: Uint32Array
}

export function parseTokenRequest(body: Record<string, unknown>): TokenCall {
  const fields = checked(tokenRequestSchema, stripNoOps(withoutNulls(stripTransferFields(body))))
  const { token_ids: ids, sampling_params: params, request_id: _, ...rest } = fields
  // The ids' text is irrelevant here.
  const plain = stripNoOps(withoutNulls(stripTransferFields({ ...params })), { detokenize: false })
  const asked = samplingOf(plain)
  if (asked.prompt_logprobs !== undefined && fields.stream === true) {
    throw invalid('sampling_params.prompt_logprobs', 'requires a reply that is not streamed')
  }
  const options = generationOptions(
    { ...rest, ...asked },
    { maxTokens: asked.max_tokens, output: given({ logprobs: asked.logprobs }) },
  )
  return {
    ...options,
    ...given({ showsPromptLogprobs: asked.prompt_logprobs === undefined ? undefined : true }),
    keepsTokenIds: true,
    tokenIds: Uint32Array.from(ids),
  }
}

/** Error messages name the field as the client wrote it. */
function samplingOf(params: Record<string, unknown>): z.infer<typeof samplingSchema> {
  return checked(z.strictObject({ sampling_params: samplingSchema }), { sampling_params: params })
    .sampling_params
}
