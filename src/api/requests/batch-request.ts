/** Request bodies and queries for files and batches. */
import { z } from 'zod'
import { invalid } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { queryFields } from '../fields/query-fields.ts'
import { checked } from '../fields/schema-check.ts'
import { metadataSchema } from '../fields/record-schema.ts'

const HOUR = 3600
const KEEP_SECONDS_MIN = HOUR
const KEEP_SECONDS_MAX = 30 * 24 * HOUR
const WINDOW_SECONDS_MAX = 30 * 24 * HOUR
const WINDOW_FAULT = 'must be a time such as 24h, from 1s to 30d'
/** Page sizes of lists. */
export const PAGE_LIMITS = {
  files: { usual: 10_000, max: 10_000 },
  batches: { usual: 20, max: 100 },
  items: { usual: 10_000, max: 10_000 },
} as const

/** Endpoints that a batch may use; all of its lines use the same one. */
const BATCH_ENDPOINTS = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
  '/v1/rerank',
  '/v1/score',
] as const

const expiry = z.strictObject({
  anchor: z.enum(['created_at', 'file_created_at']),
  seconds: z.int().min(KEEP_SECONDS_MIN).max(KEEP_SECONDS_MAX),
})

export const batchSchema = z.strictObject({
  input_file_id: z.string().min(1),
  endpoint: z.enum(BATCH_ENDPOINTS),
  /** `24h`, or another number of s, m, h or d up to 30 days. */
  completion_window: z.string().regex(/^\d+[smhd]$/, WINDOW_FAULT),
  metadata: metadataSchema.optional(),
  output_expires_after: expiry.optional(),
})

export interface BatchCall {
  readonly inputFileId: string
  readonly endpoint: string
  readonly completionWindow: string
  readonly windowSeconds: number
  readonly metadata?: Readonly<Record<string, string>>
  readonly outputKeepSeconds?: number
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: HOUR, d: 24 * HOUR }

export function parseBatch(body: Record<string, unknown>): BatchCall {
  const fields = checked(batchSchema, withoutNulls(body))
  const { metadata, completion_window: completionWindow } = fields
  const [, digits, unit = ''] = /^(\d{1,7})([smhd])$/.exec(completionWindow) ?? []
  const windowSeconds = Number(digits) * (UNIT_SECONDS[unit] ?? 0)
  if (!(windowSeconds >= 1 && windowSeconds <= WINDOW_SECONDS_MAX)) {
    throw invalid('completion_window', WINDOW_FAULT)
  }
  return {
    inputFileId: fields.input_file_id,
    endpoint: fields.endpoint,
    completionWindow,
    windowSeconds,
    ...given({ metadata, outputKeepSeconds: fields.output_expires_after?.seconds }),
  }
}

/** Text fields of the upload form. */
export interface FileForm {
  readonly purpose: string
  readonly keepSeconds?: number
}

export const FILE_PURPOSES = [
  'batch',
  'user_data',
  'assistants',
  'fine-tune',
  'vision',
  'evals',
] as const

export function parseFileForm(fields: Readonly<Record<string, string>>): FileForm {
  const { purpose = '' } = fields
  if (!(FILE_PURPOSES as readonly string[]).includes(purpose)) {
    throw invalid('purpose', `must be one of ${FILE_PURPOSES.join(', ')}`)
  }
  const seconds = fields['expires_after[seconds]']
  if (seconds === undefined) return { purpose }
  const { seconds: keepSeconds } = checked(expiry, {
    anchor: fields['expires_after[anchor]'],
    seconds: Number(seconds),
  })
  return { purpose, keepSeconds }
}

export interface Page {
  readonly limit: number
  readonly after?: string
  readonly order: 'asc' | 'desc'
  readonly purpose?: string
}

interface PageLimits {
  readonly usual: number
  readonly max: number
}

export function parsePage(query: string, limits: PageLimits): Page {
  const { after, order = 'desc', purpose } = queryFields(query)
  const count = parseLimit(query, limits)
  if (order !== 'asc' && order !== 'desc') throw invalid('order', 'must be asc or desc')
  return { limit: count, order, ...given({ after, purpose }) }
}

/** The query of a list without pages. */
export function parseLimit(query: string, { usual, max }: PageLimits): number {
  const { limit } = queryFields(query)
  if (limit === undefined) return usual
  const count = Number(limit)
  if (/^\d{1,9}$/.test(limit) && count >= 1 && count <= max) return count
  throw invalid('limit', `must be an integer from 1 to ${max}`)
}
