/**
 * `POST /v1/embeddings`: one vector per input. A server that takes requests unchanged gets the request itself, because
 * Baton's adapters ask only for tokens. Other engines without embeddings are refused by name.
 */
import { BatonError } from '../../base/index.ts'
import {
  applyRoutingHeaders,
  embeddingReplyJson,
  given,
  parseEmbeddingRequest,
  readJsonObject,
  routingOf,
  sessionOf,
} from '../../api/index.ts'
import type { EmbeddingCall } from '../../api/index.ts'
import type { GenerateRequest, RoutingHints } from '../../request/index.ts'
import { usageOf } from '../../request/index.ts'
import { refuseOtherModels, refuseRouting, tenantRouting } from '../access/tenant-rules.ts'
import { answerAtEngine } from '../forward/forward-answer.ts'
import type { CallRecord } from '../generation/call-record.ts'
import { refuseLongInput } from '../prompt/context-window.ts'
import { EmbeddingRun } from '../generation/embedding-run.ts'
import { offLoopOf } from '../generation/generation-job.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { createMigratingService } from '../generation/migration.ts'
import { withinPreprocess } from '../http/preprocess-deadline.ts'
import { embeddingPrompts, withinContext } from '../prompt/prompt.ts'
import type { EmbeddingInput } from '../prompt/prompt.ts'
import type { ServedModel } from '../models/served-model.ts'

export async function answerEmbeddings(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
): Promise<HttpReply> {
  const unchanged = answerAtEngine(deps, http, record)
  if (unchanged !== null) return await unchanged
  const call = parseEmbeddingRequest(readJsonObject(http.body, http.headers['content-type']))
  const { encoding } = call
  const { model, vectors, promptTokens } = await embeddingsOf(deps, http, record, {
    ...call,
    inputs: call.inputs.map((content) => ({ content, param: 'input' })),
    lacks: (name) => `the engine of model \`${name}\` does not support embeddings`,
  })
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: embeddingReplyJson({ model, vectors, encoding, promptTokens }),
  }
}

export interface Embeddings {
  readonly model: string
  /** In the order of the inputs. */
  readonly vectors: readonly Float32Array[]
  readonly promptTokens: number
}

interface EmbeddingWish extends Pick<EmbeddingCall, 'model' | 'dimensions'> {
  readonly inputs: readonly EmbeddingInput[]
  /** The message for a model whose engine does not support embeddings. */
  readonly lacks: (model: string) => string
}

/** Computes one vector per input; shared by all endpoints that need embeddings. */
export async function embeddingsOf(
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
  call: EmbeddingWish,
): Promise<Embeddings> {
  const nvext = applyRoutingHeaders({}, http.headers)
  refuseRouting(record.caller, nvext)
  const workerId = nvext.decode_worker_id ?? nvext.prefill_worker_id
  const model = deps.registry.ready(call.model, { workerId })
  refuseOtherModels(record.caller, [call.model ?? model.name, model.name])
  const loraName = model.adapterNamed(call.model)
  const asked = routingOf(nvext, sessionOf(http.headers), http.headers)
  const routing = { ...tenantRouting(record.caller, asked), ...given({ loraName }) }
  record.started(model.name, { stream: false, nvext }, routing)
  refuseWhatIsMissing(call, model)
  const prompts = await withinPreprocess(tokenised(deps, call, model), {
    clock: deps.clock,
    limitMs: deps.bounds.preprocessMs,
    signal: http.signal,
  })
  for (const [i, { length }] of prompts.entries())
    refuseLongInput(length, model.contextLength, call.inputs[i]?.param ?? 'input')
  const promptTokens = prompts.reduce((sum, prompt) => sum + prompt.length, 0)
  record.preprocessed(promptTokens)
  record.reserve(promptTokens, () => 0)
  const run = new EmbeddingRun({
    service: createMigratingService(model.router.service, {
      limit: deps.bounds.migrationLimit,
      clock: deps.clock,
      record,
    }),
    requests: requestsOf(prompts, {
      requestId: record.requestId,
      model: model.name,
      routing,
      ...given({ traceparent: record.traceparent }),
    }),
    clock: deps.clock,
    signal: http.signal,
    silenceMs: deps.bounds.firstItemMs,
    onPhase: (event) => record.tell(event),
  })
  const vectors = await run.vectors()
  record.ended({ status: 200, error: null, usage: usageOf(promptTokens, 0), choices: 0 })
  return { model: model.name, vectors, promptTokens }
}

/** An engine must announce the feature `embeddings`; otherwise it is assumed not to have it. */
function refuseWhatIsMissing({ dimensions, lacks }: EmbeddingWish, model: ServedModel): void {
  if (model.features?.includes('embeddings') !== true) {
    throw new BatonError('request.unsupported_parameter', lacks(model.name), {
      data: { param: 'model' },
    })
  }
  if (dimensions === undefined || dimensions === model.embeddingLength) return
  throw new BatonError(
    'request.unsupported_parameter',
    `\`dimensions\`: embeddings of model \`${model.name}\` have ${model.embeddingLength ?? 'a fixed number of'} dimensions and cannot be shortened`,
    { data: { param: 'dimensions' } },
  )
}

async function tokenised(
  deps: GenerationDeps,
  call: EmbeddingWish,
  model: ServedModel,
): Promise<Uint32Array[]> {
  const text = await model.text()
  const offLoop = offLoopOf(deps, model, text)
  return await embeddingPrompts(call.inputs, text, (param) =>
    withinContext(offLoop, text, model.contextLength, param),
  )
}

function requestsOf(
  prompts: readonly Uint32Array[],
  common: {
    readonly requestId: string
    readonly model: string
    readonly routing: RoutingHints
    readonly traceparent?: string
  },
): GenerateRequest[] {
  return prompts.map((tokenIds, index) => ({
    ...common,
    kind: 'embed',
    requestId: prompts.length === 1 ? common.requestId : `${common.requestId}-${index}`,
    tokenIds,
    sampling: {},
    stop: {},
    output: {},
    eosTokenIds: [],
  }))
}
