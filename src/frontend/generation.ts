/**
 * A generating call from its values to its reply: preprocess, send, and answer in the form that was asked for.
 *
 * The endpoints differ in how they read a request and how they show text; what lies between is here, once.
 */
import { assert } from '../base/index.ts'
import {
  annotationEvent,
  applyRoutingHeaders,
  asciiJson,
  quoteJson,
  refuseMissingFeatures,
  routingOf,
  sessionOf,
  traceparentOf,
} from '../api/index.ts'
import type { GenerationOptions } from '../api/index.ts'
import { finishChunk } from '../request/index.ts'
import type { GenerateRequest, RequestService } from '../request/index.ts'
import type { EncodeOptions, ModelText, OutputParser } from '../text/index.ts'
import type { CallRecord } from './call-record.ts'
import { ChoiceSink } from './choice-sink.ts'
import { Exchange } from './exchange.ts'
import type { FrontendLimits, FrontendOptions } from './frontend-options.ts'
import type { HttpReply, HttpRequest } from './http-exchange.ts'
import { createMigratingService } from './migration.ts'
import type { ModelRegistry } from './model-registry.ts'
import { withinPreprocess } from './preprocess-deadline.ts'
import type { OffLoop, PreparedPrompt } from './prompt.ts'
import { usageOfChoices } from './reply-context.ts'
import type { ReplyContext } from './reply-context.ts'
import { ReplyText } from './reply-text.ts'
import { ReplyTrail } from './reply-trail.ts'
import type { ReplyWriters } from './reply-writer.ts'
import { createToolCallId } from './request-id.ts'
import type { ServedModel } from './served-model.ts'
import { AnswerKeeper, prefillNextTurn } from './speculative-prefill.ts'
import { tokenFaces } from './token-face.ts'
import { workerRequests } from './worker-requests.ts'

export interface GenerationDeps extends FrontendOptions {
  readonly registry: ModelRegistry
  readonly bounds: FrontendLimits
}

/** What an endpoint brings. */
export interface GenerationJob<Call extends GenerationOptions> {
  readonly call: Call
  readonly writers: ReplyWriters
  readonly promptParam: 'messages' | 'prompt' | 'input'
  prompts(text: ModelText, offLoop: OffLoop): Promise<PreparedPrompt[]>
  /** Text that precedes the generated one, per prompt. */
  echoes?(prompts: readonly PreparedPrompt[], text: ModelText): readonly string[]
  /** The prompt of the next turn as far as it is known, when this one was answered so. */
  nextTurn?(answer: string, text: ModelText, offLoop: OffLoop): Promise<PreparedPrompt>
  /** Called once per choice. */
  parser?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): OutputParser | null
}

interface Prepared {
  readonly context: ReplyContext
  readonly requests: readonly GenerateRequest[]
  readonly text: ModelText
}

export async function generate<Call extends GenerationOptions>(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  given: GenerationJob<Call>,
): Promise<HttpReply> {
  const nvext = applyRoutingHeaders(given.call.nvext, http.headers)
  const job: GenerationJob<Call> = { ...given, call: { ...given.call, nvext } }
  const model = deps.registry.ready(job.call.model)
  const routing = routingOf(nvext, sessionOf(http.headers), http.headers)
  record.started(model.name, job.call, routing)
  refuseMissingFeatures(job.call, model.features)
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
  return answer(deps, http, record, model, job, { context, requests, text })
}

async function preprocess<Call extends GenerationOptions>(
  deps: GenerationDeps,
  model: ServedModel,
  job: GenerationJob<Call>,
): Promise<{ text: ModelText; prompts: PreparedPrompt[] }> {
  const text = await model.text()
  return { text, prompts: await job.prompts(text, offLoopOf(deps, model)) }
}

export function offLoopOf(deps: GenerationDeps, model: ServedModel): OffLoop {
  return (text: string, options: EncodeOptions) => {
    const [card] = model.cards
    if (text.length < deps.bounds.offLoopCharacters || card === undefined) return undefined
    return deps.encodeOffLoop?.(card, text, options)
  }
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

async function answer<Call extends GenerationOptions>(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  model: ServedModel,
  job: GenerationJob<Call>,
  prepared: Prepared,
): Promise<HttpReply> {
  const { context, requests, text } = prepared
  const { stream } = job.call
  const streamed = stream
    ? job.writers.streamed(context, annotationEvents(record, job, context))
    : null
  const whole = streamed === null ? job.writers.whole(context) : null
  const writer = streamed ?? whole
  assert(writer !== null, 'a reply has a writer')
  const choices: ChoiceSink[] = []
  const { speculative_prefill: speculates = false } = job.call.nvext.agent_hints ?? {}
  const keepers: AnswerKeeper[] = []
  const exchange = new Exchange({
    clock: deps.clock,
    limits: deps.bounds,
    signal: http.signal,
    streamed: stream,
    listener: {
      began: () => {
        record.firstToken()
        writer.began()
      },
      routed: (_, event) => record.routed(event),
      completed: () => writer.completed(),
      brokeOff: (error) => writer.brokeOff(error),
      keepAlive: () => writer.keepAlive(),
      ended: (error) => {
        if (error !== null) streamed?.stream.abandon()
        record.ended({
          status: error !== null && !exchange.isDecided ? error.row.httpStatus : 200,
          error,
          usage: usageOfChoices(context, choices),
          choices: choices.length,
        })
        const [request] = requests
        const [keeper] = keepers
        if (error !== null || keeper === undefined || request === undefined) return
        const next = job.nextTurn?.(keeper.answer, text, offLoopOf(deps, model))
        if (next !== undefined) prefillNextTurn(deps, model, request, next)
      },
    },
  })
  requests.forEach((_, index) => {
    const prompt = context.prompts[Math.floor(index / job.call.choiceCount)]
    const parser = prompt === undefined ? null : (job.parser?.(text, model, prompt) ?? null)
    let output = writer.createOutput(index)
    if (speculates && requests.length === 1) {
      const keeper = new AnswerKeeper(output)
      keepers.push(keeper)
      output = keeper
    }
    const choice = new ChoiceSink({
      owner: exchange,
      output,
      text: new ReplyText(text.tokenizer, job.call.stop, {
        skipSpecialTokens: job.call.output.skipSpecialTokens ?? true,
        markers: parser?.markers ?? [],
      }),
      parser: parser ?? undefined,
      trail: new ReplyTrail(record.receivedMs, record.receivedEpochMs),
      keepTokenIds: job.call.nvext.extra_fields?.includes('completion_token_ids') ?? false,
    })
    choices.push(choice)
    writer.addChoice(choice)
  })
  await exchange.run(serviceOf(deps, model), requests, choices)
  if (streamed !== null) {
    return { status: 200, headers: STREAM_HEADERS, body: streamed.stream }
  }
  return { status: 200, headers: JSON_HEADERS, body: whole?.body() ?? '' }
}

export const JSON_HEADERS = { 'content-type': 'application/json' }

const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Reverse proxies that collect replies would undo the streaming.
  'x-accel-buffering': 'no',
}

/** Migration over the model's router; a request for no token at all never leaves the frontend. */
function serviceOf(deps: GenerationDeps, model: ServedModel): RequestService {
  const { migrationLimit, migrationMaxSequenceTokens } = deps.bounds
  const migrating = createMigratingService(model.router.service, {
    limit: migrationLimit,
    maxSequenceTokens: migrationMaxSequenceTokens,
    onMigrated: (migration) => deps.observer?.migrated?.(migration),
  })
  return {
    send(request, sink) {
      if (request.stop.maxTokens !== 0) return migrating.send(request, sink)
      sink.onChunk(finishChunk('length'))
      return { cancel: () => {} }
    },
  }
}

/** Events that precede the chunks, in the order in which they were asked for. */
function annotationEvents<Call extends GenerationOptions>(
  record: CallRecord,
  job: GenerationJob<Call>,
  context: ReplyContext,
): string[] {
  const { nvext } = job.call
  const events: string[] = []
  for (const name of nvext.annotations ?? []) {
    if (name === 'request_id') events.push(annotationEvent(name, quoteJson(record.requestId)))
    if (name === 'formatted_prompt') {
      for (const { text } of context.prompts) {
        if (text !== undefined) events.push(annotationEvent(name, quoteJson(text)))
      }
    }
    if (name === 'token_ids' && nvext.token_data === undefined) {
      for (const { tokenIds } of context.prompts) {
        events.push(annotationEvent(name, asciiJson(Array.from(tokenIds))))
      }
    }
  }
  return events
}
