/**
 * A generating call from its parsed values to its reply: preprocess, build the workers' requests, and run them.
 *
 * Endpoints differ in how they parse a request and how they show text; everything between is here.
 */
import {
  applyRoutingHeaders,
  needsFeatures,
  refuseMissingFeatures,
  routingOf,
  sessionOf,
} from '../../api/index.ts'
import type { GenerationOptions } from '../../api/index.ts'
import { BatonError, freeOwned, hasExactIntegers } from '../../base/index.ts'
import type {
  EngineFeature,
  GenerateRequest,
  GuidedDecoding,
  RoutingHints,
} from '../../request/index.ts'
import { guidedGrammar, withPlainBounds } from '../../text/index.ts'
import type { ModelText } from '../../text/index.ts'
import { refuseOtherModels, refuseRouting, tenantRouting } from '../access/tenant-rules.ts'
import type { CallRecord } from './call-record.ts'
import { offLoopOf } from './generation-job.ts'
import type { GenerationDeps, GenerationJob } from './generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { withinPreprocess } from '../http/preprocess-deadline.ts'
import { withinContext } from '../prompt/prompt.ts'
import type { PreparedPrompt } from '../prompt/prompt.ts'
import { repliedCall } from '../reply/reply-context.ts'
import type { ReplyContext } from '../reply/reply-context.ts'
import { ReplyRun } from './reply-run.ts'
import type { ServedModel } from '../models/served-model.ts'
import { withGoals } from '../prompt/goals-of-class.ts'
import { workerRequests } from '../prompt/worker-requests.ts'

export async function generate<Call extends GenerationOptions>(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  given: GenerationJob<Call>,
): Promise<HttpReply> {
  // The call was read from it, and has copies of everything.
  freeOwned(http.body.buffer)
  const nvext = applyRoutingHeaders(given.call.nvext, http.headers)
  const job: GenerationJob<Call> =
    nvext === given.call.nvext ? given : { ...given, call: { ...given.call, nvext } }
  refuseRouting(record.caller, nvext)
  const session = sessionOf(http.headers)
  const model = deps.registry.ready(job.call.model, {
    sessionId: nvext.session_control?.session_id ?? session?.sessionId,
    workerId: nvext.decode_worker_id ?? nvext.backend_instance_id ?? nvext.prefill_worker_id,
  })
  refuseOtherModels(record.caller, [job.call.model ?? model.name, model.name])
  const loraName = model.adapterNamed(job.call.model)
  const asked = routingOf(nvext, session, http.headers)
  const hints = withGoals(model.router, tenantRouting(record.caller, asked))
  const routing = withinFeatures(
    model,
    job.call,
    loraName === undefined ? hints : { ...hints, loraName },
  )
  record.started(model.name, job.call, routing)
  refuseMissingFeatures(job.call, model.features)
  const relaxed = refuseUnwritable(job.call, model.features)
  const relaxedTools = new Set<string>()
  // Prompt log-probabilities are computed by decode workers alone, which have a queue of their own.
  const isScored = job.call.output.promptLogprobs !== undefined
  const refusal = isScored ? null : model.router.refusalAtOnce(routing)
  if (refusal !== null) throw refusal
  const { text, prompts } = await withinPreprocess(preprocess(deps, model, job), {
    clock: deps.clock,
    limitMs: deps.bounds.preprocessMs,
    signal: http.signal,
  })
  const requests = workerRequests({
    requestId: record.requestId,
    model: model.name,
    call: withGuided(job, text, model, prompts, relaxedTools),
    prompts,
    text,
    contextLength: model.contextLength,
    routing,
    traceparent: record.traceparent,
    promptParam: job.promptParam,
    callGrammar: callGrammarOf(job, text, model, prompts),
  })
  const promptTokens = prompts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0)
  record.preprocessed(promptTokens)
  record.reserve(promptTokens, () => outputMost(job.call, requests), requests.length)
  const context = replyContext(deps, record, model, job, text, prompts)
  const reply = await ReplyRun.answer({
    deps,
    signal: http.signal,
    record,
    model,
    job,
    context,
    requests,
    prompts,
    text,
  })
  const ignored = [...relaxed, ...ignoredText('tools', relaxedTools)]
  if (ignored.length === 0) return reply
  return { ...reply, headers: { ...reply.headers, 'x-baton-relaxed': ignored.join('; ') } }
}

/** A request that needs features is not sent to workers that may ignore them. */
function withinFeatures(
  { statesFeaturesInPart }: ServedModel,
  call: GenerationOptions,
  routing: RoutingHints,
): RoutingHints {
  if (!statesFeaturesInPart || !needsFeatures(call)) return routing
  return { ...routing, needsStatedFeatures: true }
}

/** Undefined: the client sets no limit, and the context length is far above the length of most answers. */
function outputMost(
  { stop }: GenerationOptions,
  requests: readonly GenerateRequest[],
): number | undefined {
  if (stop.maxTokens === undefined) return undefined
  return requests.reduce((sum, request) => sum + (request.stop.maxTokens ?? 0), 0)
}

/**
 * Refuses a shape that no grammar can express here instead of at a worker after its prompt was computed. What a
 * request that is not strict loses is reported in a header.
 */
function refuseUnwritable(
  { sampling: { guided } }: GenerationOptions,
  features: readonly EngineFeature[] | undefined,
): readonly string[] {
  if (guided === undefined || features?.includes('gbnf') !== true) return []
  const relaxed = new Set<string>()
  guidedGrammar(guided, relaxed)
  return ignoredText(guided.field ?? 'guided', relaxed)
}

function ignoredText(field: string, keywords: ReadonlySet<string>): readonly string[] {
  return keywords.size === 0 ? [] : [`${field}: ${[...keywords].join(', ')}`]
}

/** The shape of the output, with the text that this model writes before it or instead of it. */
function withGuided<Call extends GenerationOptions>(
  job: GenerationJob<Call>,
  text: ModelText,
  model: ServedModel,
  [prompt]: readonly PreparedPrompt[],
  relaxed: Set<string>,
): Call {
  const { call } = job
  const { guided } = call.sampling
  if (guided === undefined || prompt === undefined) return call
  const shape = job.guided?.(guided, text, model, prompt, relaxed) ?? guided
  return { ...call, sampling: { ...call.sampling, guided: withoutExactIntegers(shape, model) } }
}

function callGrammarOf<Call extends GenerationOptions>(
  job: GenerationJob<Call>,
  text: ModelText,
  model: ServedModel,
  [prompt]: readonly PreparedPrompt[],
): string | undefined {
  if (model.features?.includes('drawn_calls') !== true) return undefined
  if (prompt === undefined || job.call.sampling.guided !== undefined) return undefined
  return job.drawableCalls?.(text, model, prompt)
}

/** Large integers are passed to a worker as a grammar only, because engines round them in schemas. */
function withoutExactIntegers(guided: GuidedDecoding, model: ServedModel): GuidedDecoding {
  if (guided.kind !== 'json-schema') return guided
  const schema = withPlainBounds(guided.schema)
  if (!hasExactIntegers(schema)) return schema === guided.schema ? guided : { ...guided, schema }
  const { field = 'response_format' } = guided
  if (model.features?.includes('gbnf') === true) {
    return { kind: 'grammar', gbnf: guidedGrammar(guided), field }
  }
  throw new BatonError(
    'request.unsupported_parameter',
    `\`${field}\`: the engine of this model would round an integer of the schema`,
    { data: { param: field } },
  )
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
    const { contextLength } = model
    const offLoop = offLoopOf(deps, model, text)
    const limited = withinContext(offLoop, text, contextLength, job.promptParam)
    const prompts = job.prompts(text, limited)
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
    call: repliedCall(job.call),
    prompts: prompts.map(({ tokenIds }) => ({ tokenIds })),
    tokenizer: text.tokenizer,
    echoes: job.echoes?.(prompts, text) ?? [],
    clock: deps.clock,
    random: deps.random,
  }
}
