/** `POST /v1/rerank` and `/v1/score`: schemas, and the calls as values. Both compare texts with texts. */
import { z } from 'zod'
import { invalid } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'

const TEXTS_MAX = 2048

const document = z.union([z.string(), z.strictObject({ text: z.string() })])

export const rerankSchema = z.strictObject({
  model: z.string().optional(),
  query: z.string(),
  documents: z.array(document).min(1),
  top_n: z.int().min(0).optional(),
  return_documents: z.boolean().optional(),
  user: z.string().optional(),
})

export interface RerankCall {
  readonly model?: string
  readonly query: string
  readonly documents: readonly string[]
  readonly topN: number
  readonly returnsDocuments: boolean
}

export function parseRerank(body: Record<string, unknown>): RerankCall {
  const fields = checked(rerankSchema, withoutNulls(body))
  const documents = fields.documents.map((each) => (typeof each === 'string' ? each : each.text))
  refuseMany('documents', documents.length)
  const { top_n: topN = 0 } = fields
  return {
    ...given({ model: fields.model }),
    query: fields.query,
    documents,
    // In Jina and vLLM 0 means all.
    topN: topN === 0 ? documents.length : Math.min(topN, documents.length),
    returnsDocuments: fields.return_documents ?? true,
  }
}

const texts = z.union([z.string(), z.array(z.string()).min(1)])

/** Alternative names of the same pair in vLLM. */
const PAIRS = [
  ['queries', 'documents'],
  ['queries', 'items'],
  ['data_1', 'data_2'],
] as const

export const scoreSchema = z.strictObject({
  model: z.string().optional(),
  text_1: texts,
  text_2: texts,
  encoding_format: z.literal('float').optional(),
  user: z.string().optional(),
})

export interface ScoreCall {
  readonly model?: string
  /** Both have the same length. */
  readonly left: readonly string[]
  readonly right: readonly string[]
}

/** One text with several, or several with as many. */
export function parseScore(body: Record<string, unknown>): ScoreCall {
  const fields = checked(scoreSchema, withPairNamed(withoutNulls(body)))
  const right = listOf(fields.text_2)
  const first = listOf(fields.text_1)
  const left = first.length === 1 ? right.map(() => first[0] ?? '') : first
  if (left.length !== right.length) {
    const text = `must be one text, or as many as \`text_2\`: ${first.length} and ${right.length}`
    throw invalid('text_1', text)
  }
  refuseMany('text_2', right.length)
  return { ...given({ model: fields.model }), left, right }
}

function withPairNamed(body: Record<string, unknown>): Record<string, unknown> {
  const pair = PAIRS.find(([first, second]) => first in body && second in body)
  if (pair === undefined || 'text_1' in body || 'text_2' in body) return body
  const { [pair[0]]: text_1, [pair[1]]: text_2, ...rest } = body
  return { ...rest, text_1, text_2 }
}

function listOf(value: string | string[]): string[] {
  return typeof value === 'string' ? [value] : value
}

function refuseMany(param: string, count: number): void {
  if (count > TEXTS_MAX) throw invalid(param, `holds ${count} texts, the limit is ${TEXTS_MAX}`)
}
