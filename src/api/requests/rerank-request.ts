/** `POST /v1/rerank` and `/v1/score`: schemas, and the calls as values. Both compare texts with texts. */
import { z } from 'zod'
import { invalid } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { withFieldNames } from '../fields/renamed-fault.ts'
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

/** A text with the field that has it, for errors. */
export interface NamedText {
  readonly text: string
  /** For example `documents[2]`. */
  readonly param: string
}

export interface RerankCall {
  readonly model?: string
  readonly query: NamedText
  readonly documents: readonly NamedText[]
  readonly topN: number
  readonly returnsDocuments: boolean
}

export function parseRerank(body: Record<string, unknown>): RerankCall {
  const fields = checked(rerankSchema, withoutNulls(body))
  const documents = fields.documents.map((each, index) =>
    typeof each === 'string'
      ? { text: each, param: `documents[${index}]` }
      : { text: each.text, param: `documents[${index}].text` },
  )
  refuseMany('documents', documents.length)
  const { top_n: topN = 0 } = fields
  return {
    ...given({ model: fields.model }),
    query: { text: fields.query, param: 'query' },
    documents,
    // In Jina and vLLM 0 means all.
    topN: topN === 0 ? documents.length : Math.min(topN, documents.length),
    returnsDocuments: fields.return_documents ?? true,
  }
}

const texts = z.union([z.string(), z.array(z.string()).min(1)], 'must be a text or a list of texts')

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
  readonly left: readonly NamedText[]
  readonly right: readonly NamedText[]
}

/** One text with several, or several with as many. */
export function parseScore(request: Record<string, unknown>): ScoreCall {
  const body = withoutNulls(request)
  const [leftName, rightName] = pairOf(body)
  const nameOf = (param: string): string =>
    param.replace(/^text_1(?![^[])/, leftName).replace(/^text_2(?![^[])/, rightName)
  const fields = withFieldNames(nameOf, () => checked(scoreSchema, renamed(body)))
  const right = named(fields.text_2, rightName)
  const first = named(fields.text_1, leftName)
  const [only] = first
  const left = first.length === 1 && only !== undefined ? right.map(() => only) : first
  if (left.length !== right.length) {
    const counts = `${first.length} and ${right.length}`
    throw invalid(leftName, `must be one text, or as many as \`${rightName}\`: ${counts}`)
  }
  refuseMany(rightName, right.length)
  return { ...given({ model: fields.model }), left, right }
}

/** The names that the client uses. */
function pairOf(body: Record<string, unknown>): readonly [string, string] {
  const usual = ['text_1', 'text_2'] as const
  if (usual.some((name) => name in body)) return usual
  return PAIRS.find(([first, second]) => first in body && second in body) ?? usual
}

function renamed(body: Record<string, unknown>): Record<string, unknown> {
  const [first, second] = pairOf(body)
  const { [first]: text_1, [second]: text_2, ...rest } = body
  return { ...rest, ...given({ text_1, text_2 }) }
}

function named(value: string | string[], name: string): NamedText[] {
  return typeof value === 'string'
    ? [{ text: value, param: name }]
    : value.map((text, index) => ({ text, param: `${name}[${index}]` }))
}

function refuseMany(param: string, count: number): void {
  if (count > TEXTS_MAX) throw invalid(param, `holds ${count} texts, the limit is ${TEXTS_MAX}`)
}
