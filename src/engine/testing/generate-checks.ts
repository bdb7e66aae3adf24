/** Checks of plain requests: a single one, eight concurrent ones, one with a seed, and those that must be refused. */
import type { Chunk, GenerateRequest } from '../../request/index.ts'
import { RequestContext } from '../generate-context.ts'
import { ConcurrentReads } from './concurrent-reads.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { isRefused } from './refusal.ts'
import { thrownText } from './thrown-text.ts'

/** Reason for not making the checks that need output. */
export const EMBEDS_ONLY = 'the engine makes embeddings only'

export async function checkSingle(subject: ConformanceSubject): Promise<void> {
  const outcome = await subject.read(subject.request(8))
  if (isRefused(outcome) && subject.config.features?.includes('embeddings') === true) {
    subject.embedsOnly = true
    subject.report.skip('single', EMBEDS_ONLY)
    return
  }
  if (!subject.judgePlain(outcome)) return
  if (subject.isPrefill && outcome.chunks.at(-1)?.prefillResult === undefined)
    subject.report.fail('prefill-result-missing', 'the terminal chunk has none')
}

export async function checkConcurrent(subject: ConformanceSubject): Promise<void> {
  const beside = new ConcurrentReads()
  const outcomes = await Promise.all(
    Array.from({ length: 8 }, () => subject.read(subject.request(8), { beside })),
  )
  const answered = outcomes.filter(({ end, chunks }) => end === 'finish' && chunks.length > 0)
  if (answered.length < outcomes.length) {
    const other = outcomes.find((outcome) => !answered.includes(outcome))
    const why = other?.error === undefined ? (other?.end ?? '') : thrownText(other.error)
    subject.report.fail('concurrent-generate-failed', `${answered.length} of 8 answered (${why})`)
  }
}

export async function checkLogprobs(subject: ConformanceSubject): Promise<void> {
  if (subject.config.features?.includes('logprobs') !== true || subject.isPrefill) {
    subject.report.skip('logprobs', 'not a feature of this engine')
    return
  }
  const hasOfPrompt = subject.config.features.includes('prompt_logprobs')
  const output = { logprobs: 1, ...(hasOfPrompt ? { promptLogprobs: 1 } : {}) }
  subject.judgePlain(await subject.read(subject.request(4, { output })))
}

export async function checkSeed(subject: ConformanceSubject): Promise<void> {
  if (subject.config.features?.includes('seed') !== true || subject.isPrefill) {
    subject.report.skip('seed', 'not a feature of this engine')
    return
  }
  const outputs: string[] = []
  for (let run = 0; run < 2; run++) {
    const request = subject.request(8, { sampling: { temperature: 1, seed: 7 } })
    const outcome = await subject.read(request)
    if (!subject.judgePlain(outcome)) return
    outputs.push(outputOf(outcome.chunks))
  }
  if (outputs[0] !== outputs[1])
    subject.report.fail('seed-not-repeatable', `first ${outputs[0]}, then ${outputs[1]}`)
}

/** Text as a whole: an engine may cut it into other pieces each time. */
function outputOf(chunks: readonly Chunk[]): string {
  const ids = chunks.flatMap(({ tokenIds }) => tokenIds).join(' ')
  const text = chunks.map((chunk) => chunk.text ?? '').join('')
  return text === '' ? ids : `${ids}${ids === '' ? '' : ' and '}'${text}'`
}

/** A refusal has to be a typed error. */
export async function checkErrors(subject: ConformanceSubject): Promise<void> {
  const empty = await subject.read(subject.request(8, { tokenIds: new Uint32Array(0) }))
  if (empty.end === 'error') subject.judgeError(empty.error)
  else subject.judgePlain(empty)
  const { failingRequest } = subject.options
  if (failingRequest === undefined) return
  const outcome = await subject.read(failingRequest)
  if (outcome.end === 'error') subject.judgeError(outcome.error)
  else subject.report.fail('error-untyped', 'the failing request did not end in an error')
}

export async function checkHealth(subject: ConformanceSubject): Promise<void> {
  const request = payloadOf(subject)
  if (request === undefined) return
  if (request === null) {
    subject.report.skip('health', 'the engine has no health check request')
    return
  }
  try {
    const { end, error } = await subject.read(request)
    if (end === 'finish') return
    const why = error === undefined ? end : thrownText(error)
    const hint = request.stop.maxTokens === undefined ? ' (the request has no `maxTokens`)' : ''
    subject.report.fail('health-check-failed', why + hint)
  } catch (error) {
    // The payload is not even a request.
    subject.report.fail('health-check-failed', thrownText(error))
  }
}

/** Undefined: the method threw, which is reported. */
function payloadOf({ engine, report }: ConformanceSubject): GenerateRequest | null | undefined {
  try {
    return engine.healthCheckPayload?.() ?? null
  } catch (error) {
    report.fail('health-check-failed', thrownText(error))
    return undefined
  }
}

/** Must be refused by an engine that was never started. */
export async function checkBeforeStart(subject: ConformanceSubject): Promise<void> {
  const context = new RequestContext('before-start')
  const outcome = await subject.read(subject.request(8), { context })
  if (outcome.end === 'error') subject.judgeError(outcome.error)
  else subject.report.fail('generate-before-start', `the stream ended in '${outcome.end}'`)
}
