/**
 * `POST /v1/embeddings`: schema. Whether an engine can do it is asked elsewhere.
 */
import { z } from 'zod'
import { withoutNulls } from './plain-fields.ts'
import { checked } from './schema-check.ts'

const ids = z.array(z.int().min(0).max(0xffffffff)).min(1)

export const embeddingRequestSchema = z.strictObject({
  model: z.string().optional(),
  input: z.union([z.string(), z.array(z.string()).min(1), ids, z.array(ids).min(1)]),
  encoding_format: z.enum(['float', 'base64']).optional(),
  dimensions: z.int().min(1).optional(),
  user: z.string().optional(),
  nvext: z.strictObject({ annotations: z.array(z.string()).optional() }).optional(),
})

type EmbeddingCall = z.infer<typeof embeddingRequestSchema>

export function parseEmbeddingRequest(body: Record<string, unknown>): EmbeddingCall {
  return checked(embeddingRequestSchema, withoutNulls(body))
}
