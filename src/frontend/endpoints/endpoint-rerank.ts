/**
 * `POST /v1/rerank` and `/v1/score`. A server that has these routes gets the request unchanged. For a model
 * with embeddings the score is the cosine similarity of two of them. Other models are refused by name.
 */
import { given, parseRerank, parseScore, readJsonObject } from '../../api/index.ts'
import type { NamedText } from '../../api/index.ts'
import { answerAtEngine } from '../forward/forward-answer.ts'
import type { CallRecord } from '../generation/call-record.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { embeddingsOf } from './endpoint-embeddings.ts'
import type { Embeddings } from './endpoint-embeddings.ts'
import { jsonReply } from './endpoint-status.ts'

export async function answerRerank(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const unchanged = answerAtEngine(deps, http, record)
  if (unchanged !== null) return await unchanged
  const call = parseRerank(readJsonObject(http.body, http.headers['content-type']))
  const { query, documents, topN, returnsDocuments } = call
  const made = await compared(deps, http, record, { ...call, inputs: [query, ...documents] })
  const [asked = EMPTY, ...vectors] = made.vectors
  const results = vectors
    .map((vector, index) => ({
      index,
      ...(returnsDocuments ? { document: { text: documents[index]?.text } } : {}),
      relevance_score: cosine(asked, vector),
    }))
    .toSorted((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, topN)
  return jsonReply(200, {
    id: `rerank-${record.requestId}`,
    object: 'list',
    model: made.model,
    usage: usageOf(made),
    results,
  })
}

export async function answerScore(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const unchanged = answerAtEngine(deps, http, record)
  if (unchanged !== null) return await unchanged
  const call = parseScore(readJsonObject(http.body, http.headers['content-type']))
  const { left, right } = call
  // Equal texts are embedded once.
  const inputs = new Map<string, NamedText>()
  for (const each of [...left, ...right]) if (!inputs.has(each.text)) inputs.set(each.text, each)
  const made = await compared(deps, http, record, { ...call, inputs: [...inputs.values()] })
  const vectors = new Map([...inputs.keys()].map((text, i) => [text, made.vectors[i] ?? EMPTY]))
  const vectorOf = (each: NamedText | undefined): Float32Array =>
    vectors.get(each?.text ?? '') ?? EMPTY
  return jsonReply(200, {
    id: `score-${record.requestId}`,
    object: 'list',
    created: Math.floor(record.receivedEpochMs / 1000),
    model: made.model,
    data: right.map((each, index) => ({
      index,
      object: 'score',
      score: cosine(vectorOf(left[index]), vectorOf(each)),
    })),
    usage: usageOf(made),
  })
}

const EMPTY = new Float32Array(0)

async function compared(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  call: { readonly model?: string; readonly inputs: readonly NamedText[] },
): Promise<Embeddings> {
  return await embeddingsOf(deps, http, record, {
    ...given({ model: call.model }),
    inputs: call.inputs.map(({ text, param }) => ({ content: text, param })),
    lacks: (name) =>
      `model \`${name}\` cannot rank or score: its engine has neither these routes nor embeddings; vLLM has them for cross-encoders and embedding models, llama-server with --reranking`,
  })
}

function usageOf({ promptTokens }: Embeddings): Record<string, number> {
  return { prompt_tokens: promptTokens, total_tokens: promptTokens }
}

function cosine(a: Float32Array, b: Float32Array): number {
  let [product, lengthA, lengthB] = [0, 0, 0]
  a.forEach((value, i) => {
    const other = b[i] ?? 0
    product += value * other
    lengthA += value * value
    lengthB += other * other
  })
  return lengthA === 0 || lengthB === 0 ? 0 : product / Math.sqrt(lengthA * lengthB)
}
