/**
 * Requests the same embedding twice from an engine that announces embeddings, then those of several prompts at once: an
 * engine with one buffer for all its results may answer a request with the vector of another.
 */
import { isBatonError } from '../../base/index.ts'
import type { GenerateRequest } from '../../request/index.ts'
import { embeddingOf } from '../embedding-of.ts'
import { RequestContext } from '../generate-context.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { isRefusal } from './refusal.ts'
import { PROMPTS, variantOf } from './several-prompts.ts'
import { thrownText } from './thrown-text.ts'

export async function checkEmbeddings(subject: ConformanceSubject): Promise<void> {
  const { config, report } = subject
  if (config.features?.includes('embeddings') !== true) {
    report.skip('embeddings', 'not a feature of this engine')
    return
  }
  try {
    const first = await embedding(subject, requestOf(subject))
    const second = await embedding(subject, requestOf(subject))
    if (distance(first, second) > 0)
      report.fail('embedding-wrong', 'the second result differs from the first')
    else await checkTogether(subject)
  } catch (error) {
    report.fail('embedding-wrong', thrownText(error))
  }
}

/** A batch may round differently, so a vector is a fault only if another prompt's is nearer. */
async function checkTogether(subject: ConformanceSubject): Promise<void> {
  const requests = Array.from({ length: PROMPTS }, (_, which) => {
    const tokenIds = variantOf(requestOf(subject).tokenIds, which)
    return { ...requestOf(subject, { tokenIds }), tokenIds }
  })
  const separate: Float32Array[] = []
  try {
    for (const request of requests) separate.push(await embedding(subject, request))
  } catch (error) {
    if (!isRefusal(error)) throw error
    subject.report.skip('embeddings', `several at once: ${thrownText(error)}`)
    return
  }
  // An engine may compute one after the other.
  const deadlineMs = PROMPTS * subject.deadlineMs
  const together = await Promise.all(
    requests.map((request) => embedding(subject, request, deadlineMs).catch(nullIfAway)),
  )
  for (const [i, vector] of together.entries()) {
    if (vector === null) continue
    const own = distance(vector, separate[i]!)
    const other = separate.findIndex((each) => distance(vector, each) < own)
    if (other < 0) continue
    const text = `beside others, prompt ${i} gets the vector of prompt ${other}`
    subject.report.fail('embedding-wrong', text)
    return
  }
}

function requestOf(
  subject: ConformanceSubject,
  change: Partial<GenerateRequest> = {},
): GenerateRequest {
  return subject.request(8, { kind: 'embed', stop: {}, ...change })
}

async function embedding(
  subject: ConformanceSubject,
  request: GenerateRequest,
  deadlineMs = subject.deadlineMs,
): Promise<Float32Array> {
  const { config, engine } = subject
  const away = await subject.awayReason()
  if (away !== null) throw away
  const context = new RequestContext(request.requestId)
  // Copied at once, as by a worker.
  const asked = Promise.resolve(engine.embed?.(request, context)).then((given) => ({
    given,
    vector: embeddingOf(given),
  }))
  const { given, vector = null } = (await subject.within(asked, deadlineMs)) ?? {}
  const length = config.embeddingLength ?? vector?.length
  if (vector !== null && vector.length === length) return vector
  throw new Error(`wanted ${length ?? 'some'} numbers, got ${thrownText(given)}`)
}

/** An engine may become unavailable at any time. */
function nullIfAway(error: unknown): null {
  if (isBatonError(error) && error.code === 'backend.worker_unavailable') return null
  throw error
}

function distance(some: Float32Array, others: Float32Array): number {
  return some.reduce((sum, value, i) => sum + (value - (others[i] ?? 0)) ** 2, 0)
}
