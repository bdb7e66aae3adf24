/**
 * A generating call from its values to its reply: preprocess, build the workers' requests, and let them run.
 *
 * The endpoints differ in how they read a request and how they show text; what lies between is here, once.
 */
import {
  applyRoutingHeaders,
  refuseMissingFeatures,
  routingOf,
  sessionOf,
  traceparentOf,
} from '../api/index.ts'
import type { GenerationOptions } from '../api/index.ts'
import type { EngineFeature } from '../request/index.ts'
import { guidedGrammar } from '../text/index.ts'
import type { ModelText } from '../text/index.ts'
import type { CallRecord } from './call-record.ts'
import { offLoopOf } from './generation-job.ts'
import type { GenerationDeps, GenerationJob } from './generation-job.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import { withinPreprocess } from './preprocess-deadline.ts'
import type { PreparedPrompt } from './prompt.ts'
import type { ReplyContext } from './reply-context.ts'
import { ReplyRun } from './reply-run.ts'
import { createToolCallId } from './request-id.ts'
import type { ServedModel } from './served-model.ts'
import { tokenFaces } from './token-face.ts'
import { workerRequests } from './worker-requests.ts'

export async function generate<Call extends GenerationOptions>(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  given: GenerationJob<Call>,
): Promise<HttpReply> {
  const nvext = applyRoutingHeaders(given.call.nvext, http.headers)
  const job: GenerationJob<Call> = { ...given, call: { ...given.call, nvext } }
  const model = deps.registry.ready(job.call.model)
  const loraName = model.adapterNamed(job.call.model)
  const hints = routingOf(nvext, sessionOf(http.headers), http.headers)
  const routing = loraName === undefined ? hints : { ...hints, loraName }
  record.started(model.name, job.call, routing)
  refuseMissingFeatures(job.call, model.features)
  refuseUnwritable(job.call, model.features)
  const { text, prompts } = await withinPreprocess(preprocess(deps, model, job), {
    clock: deps.clock,
    limitMs: deps.bounds.preprocessMs,
    signal: http.signal,
  })
  const requests = workerRequests({
    requestId: record.requestId,
    model: model.name,
    call: job.call,
    prompts,
    text,
    contextLength: model.contextLength,
    routing,
    traceparent: traceparentOf(http.headers),
    promptParam: job.promptParam,
  })
  record.preprocessed()
  const context = replyContext(deps, record, model, job, text, prompts)
  return new ReplyRun({ deps, http, record, model, job, context, requests, text }).answer()
}

/** A shape that no grammar can hold is refused here, and not by a worker after its prompt has been computed. */
function refuseUnwritable(
  { sampling }: GenerationOptions,
  features: readonly EngineFeature[] | undefined,
): void {
  if (sampling.guided !== undefined && features?.includes('gbnf') === true)
    guidedGrammar(sampling.guided)
}

interface Preprocessed {
  readonly text: ModelText
  readonly prompts: readonly PreparedPrompt[]
}

function preprocess<Call extends GenerationOptions>(
  deps: GenerationDeps,
  model: ServedModel,
  job: GenerationJob<Call>,
): Preprocessed | Promise<Preprocessed> {
  const withPrompts = (text: ModelText): Preprocessed | Promise<Preprocessed> => {
    const prompts = job.prompts(text, offLoopOf(deps, model))
    if (prompts instanceof Promise) return prompts.then((awaited) => ({ text, prompts: awaited }))
    return { text, prompts }
  }
  const text = model.text()
  return text instanceof Promise ? text.then(withPrompts) : withPrompts(text)
}

function replyContext<Call extends GenerationOptions>(
  deps: GenerationDeps,
  record: CallRecord,
  model: ServedModel,
  job: GenerationJob<Call>,
  text: ModelText,
  prompts: readonly PreparedPrompt[],
): ReplyContext {
  return {
    head: {
      id: job.writers.idPrefix + record.requestId,
      created: Math.floor(record.receivedEpochMs / 1000),
      model: model.name,
    },
    call: job.call,
    prompts,
    faces: tokenFaces(text.tokenizer, job.call.tokensAsIds),
    echoes: job.echoes?.(prompts, text) ?? [],
    nowMs: () => deps.clock.nowMs(),
    createToolCallId: () => createToolCallId(deps.random),
  }
}
