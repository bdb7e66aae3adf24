/** `POST /v1/embeddings`: schema, and the call as a value. An input is text or token ids, one or several. */
import { z } from 'zod'
import { invalid, unsupported } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'
import { tokenIdsSchema } from '../fields/token-ids.ts'

const INPUTS_MAX = 2048

export const embeddingRequestSchema = z.strictObject({
  model: z.string().optional(),
  input: z.union(
    [z.string(), tokenIdsSchema, z.array(z.string()).min(1), z.array(tokenIdsSchema).min(1)],
    'must be a text, texts, token ids, or lists of token ids',
  ),
  encoding_format: z.enum(['float', 'base64']).optional(),
  dimensions: z.int().min(1).optional(),
  user: z.string().optional(),
  nvext: z.strictObject({ annotations: z.array(z.string()).optional() }).optional(),
})

export interface EmbeddingCall {
  /** Undefined: the only model that is served. */
  readonly model?: string
  readonly inputs: readonly (string | Uint32Array)[]
  readonly encoding: 'float' | 'base64'
  readonly dimensions?: number
}

export function parseEmbeddingRequest(body: Record<string, unknown>): EmbeddingCall {
  const fields = checked(embeddingRequestSchema, withoutNulls(body))
  if ((fields.nvext?.annotations ?? []).length > 0) {
    throw unsupported('nvext.annotations', 'is not supported: embeddings are not streamed')
  }
  const inputs = inputsOf(fields.input)
  if (inputs.length > INPUTS_MAX) {
    throw invalid('input', `holds ${inputs.length} inputs, the limit is ${INPUTS_MAX}`)
  }
  return {
    ...given({ model: fields.model, dimensions: fields.dimensions }),
    inputs,
    encoding: fields.encoding_format ?? 'float',
  }
}

function inputsOf(
  input: z.infer<typeof embeddingRequestSchema>['input'],
): (string | Uint32Array)[] {
  if (typeof input === 'string') return [input]
  const list: readonly (string | number | number[])[] = input
  if (typeof list[0] === 'number') return [Uint32Array.from(list as number[])]
  return list.map((entry) =>
    typeof entry === 'string' ? entry : Uint32Array.from(entry as number[]),
  )
}
