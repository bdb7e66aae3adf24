/**
 * The dialect of vLLM: token ids through `/v1/completions` with `return_token_ids`, which every supported version
 * has, or through `/inference/v1/generate` where the server has it enabled.
 *
 * KV transfer (NIXL): the prefill leg is one whole answer of one token, because a streamed one reports no
 * parameters. Its parameters are sent unchanged to the decode leg, once: parameters that are used twice, late, or
 * for another prompt give wrong text without an error. A decode leg is therefore never sent twice, and old
 * parameters are not used.
 */
import { randomUUID } from 'node:crypto'
import { BatonError, isRecord } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import { hasStopTexts } from '../../request/index.ts'
import type { Chunk, GenerateRequest } from '../../request/index.ts'
import { clearByPost } from '../client/clear-cache.ts'
import { askJson, fetchWhole } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { KvEventPlace } from '../events/kv-event-feed.ts'
import { metricSamples, metricValue, parsePrometheus } from '../load/prometheus-text.ts'
import type { MetricSample } from '../load/prometheus-text.ts'
import { adapterNames, modelEntries, modelsAndAdapters } from '../client/model-list.ts'
import type { Dialect, UpstreamFacts, WriteContext, WrittenRequest } from './dialect.ts'
import { idsIn, numberIn, textIn } from './plain-values.ts'
import type { JsonObject } from './plain-values.ts'
import { NotMovedReader, TransferReader, VllmReader } from './vllm-reader.ts'
import { completionBody, generateBody } from './vllm-request.ts'
import {
  KEEP_BLOCKS,
  meetingResult,
  paramsOfPrefill,
  pushIdentity,
  requestIdOfPrefill,
} from './vllm-transfer.ts'

const DEADLINE_MS = 15_000
const LOOKS_AT_FIRST = 4
/** Of about 800 samples. */
const METRICS = [
  'vllm:num_requests_',
  'vllm:kv_cache_usage_perc',
  'vllm:gpu_cache_usage_perc',
  'vllm:cache_config_info',
  'vllm:nixl_bytes_transferred_sum',
]
const LEGS_PER_LOOK = 32
/** Answers to a route that is disabled, or that a version does not have. */
const WITHOUT_ROUTE = [403, 404, 405]

export class VllmDialect implements Dialect {
  readonly knowsMinTokens = true
  readonly hasAdapters = true
  readonly #clock: Clock
  readonly #onNote: (note: string) => void
  #hasGenerate = false
  #metricsNow: readonly MetricSample[] = []
  #bytesFetched = 0
  /** From the first prefill leg of a server that pushes. */
  #identity: JsonObject | null = null
  /** Decode legs without a reported result. */
  #untold = 0

  /** `onNote` is called for limitations, with a text for the operator. */
  constructor(clock: Clock, onNote: (note: string) => void = () => undefined) {
    this.#clock = clock
    this.#onNote = onNote
  }

  async describe(client: UpstreamClient, signal: AbortSignal): Promise<UpstreamFacts> {
    const options = { deadlineMs: DEADLINE_MS, signal }
    const health = await fetchWhole(client, { method: 'GET', path: '/health' }, options)
    if (health.status >= 500) {
      throw new BatonError('backend.worker_unavailable', 'vLLM is still loading its model')
    }
    const entries = modelEntries(await askJson(client, '/v1/models', options))
    const { models, adapters } = modelsAndAdapters(entries)
    const [base] = models
    if (base === undefined)
      throw new BatonError('backend.worker_unavailable', 'vLLM lists no model')
    const metrics = await this.#metricsOrNote(client, signal)
    this.#bytesFetched = bytesFetched(metrics)
    this.#metricsNow = metrics
    this.#hasGenerate = await hasGenerate(client, signal)
    const [cache] = metricSamples(metrics, ['vllm:cache_config_info'])
    const kvBlockTokens = Number(cache?.labels['block_size'])
    const kvBlocks = Number(cache?.labels['num_gpu_blocks'])
    const ranks = ranksIn(metrics)
    const contextLength = numberIn(base, 'max_model_len')
    const modelPath = textIn(base, 'root')
    return {
      model: textIn(base, 'id') ?? 'default',
      features: ['logprobs', 'guided', 'penalties', 'logit_bias', 'min_p', 'seed'],
      runtimeData: { token_route: this.#hasGenerate ? 'generate' : 'completions' },
      ...(adapters.length === 0 ? {} : { loraAdapters: adapterNames(entries) }),
      ...(contextLength === undefined ? {} : { contextLength }),
      ...(modelPath === undefined ? {} : { modelPath }),
      ...(kvBlockTokens > 0 ? { kvBlockTokens } : {}),
      ...(kvBlocks > 0 ? { kvBlocks } : {}),
      ...(ranks > 1 ? { ranks } : {}),
    }
  }

  write(request: GenerateRequest, context: WriteContext): WrittenRequest {
    if (context.mode === 'prefill') return this.#writePrefill(request, context)
    const transfer = paramsOfPrefill(request.prefillResult, this.#clock.epochMs())
    const isPlain = transfer === null && request.sampling.guided === undefined
    const { dpRank } = request.routing
    const completions = this.#writeCompletion(request, context, transfer)
    if (!isPlain || !this.#hasGenerate) return completions
    // Another server may answer at the address since it was asked, which does not have the route.
    const onAccepted = (): void => {
      this.#hasGenerate = false
      this.#onNote('does not serve /inference/v1/generate any more: /v1/completions is used')
    }
    return {
      ...this.#written(generateBody(request, context), request, dpRank),
      instead: { statuses: WITHOUT_ROUTE, written: { ...completions, onAccepted } },
    }
  }

  #writeCompletion(
    request: GenerateRequest,
    context: WriteContext,
    transfer: JsonObject | null,
  ): WrittenRequest {
    const { dpRank } = request.routing
    const body = {
      ...completionBody(request, context),
      stream: true,
      stream_options: {
        include_usage: true,
        ...(hasStopTexts(request.stop) ? { continuous_usage_stats: true } : {}),
      },
      ...(transfer === null ? {} : { kv_transfer_params: transfer }),
    }
    // A server that pushes identifies the leg by the request's id.
    const requestId = requestIdOfPrefill(request.prefillResult) ?? request.requestId
    const called = { ...request, requestId }
    const written = this.#written({ path: '/v1/completions', body }, called, dpRank)
    if (transfer === null) {
      return request.prefillResult === undefined
        ? written
        : { ...written, reader: new NotMovedReader(written.reader) }
    }
    const reader = new TransferReader(written.reader)
    return {
      ...written,
      reader,
      http: { ...written.http, retries: false },
      mustArrive: true,
      // Pushed KV is counted by the server that pushes.
      complete: async () =>
        reader.isTold || transfer['transfer_mode'] === 'push'
          ? {}
          : await this.#askCounter(context),
    }
  }

  /** From the metrics that were read last, because the check before has just read them. */
  identity(): Promise<JsonObject> {
    const [cache] = metricSamples(this.#metricsNow, ['vllm:cache_config_info'])
    const blockTokens = Number(cache?.labels['block_size'])
    const ranks = ranksIn(this.#metricsNow)
    return Promise.resolve({
      ...(blockTokens > 0 ? { block_size: blockTokens } : {}),
      ...(ranks > 0 ? { data_parallel_ranks: ranks } : {}),
    })
  }

  async load(client: UpstreamClient, deadlineMs: number): Promise<readonly LoadReport[] | null> {
    this.#metricsNow = []
    const { status, text } = await fetchWhole(
      client,
      { method: 'GET', path: '/metrics' },
      { deadlineMs },
    )
    if (status !== 200) return null
    const metrics = parsePrometheus(text, METRICS)
    this.#metricsNow = metrics
    const blocks = Number(
      metricSamples(metrics, ['vllm:cache_config_info'])[0]?.labels['num_gpu_blocks'],
    )
    const totalBlocks = blocks > 0 ? blocks : 0
    return enginesIn(metrics).map((engine, dpRank) => {
      const own = metrics.filter(({ labels }) => labels['engine'] === engine)
      const used = metricValue(own, ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc']) ?? 0
      return {
        dpRank,
        activeBlocks: Math.round(Math.min(1, used) * totalBlocks),
        totalBlocks,
        runningRequests: metricValue(own, ['vllm:num_requests_running']) ?? 0,
        queuedRequests: metricValue(own, ['vllm:num_requests_waiting']) ?? 0,
        prefillTokensInFlight: 0,
      }
    })
  }

  async kvEventPlaces(
    client: UpstreamClient,
    signal: AbortSignal,
  ): Promise<readonly KvEventPlace[]> {
    const options = { deadlineMs: DEADLINE_MS, signal }
    const sources = await askJson(client, '/kv_event_sources', options)
    if (!isRecord(sources)) return []
    return Object.entries(sources).flatMap(([rank, source]) => {
      const endpoint = textIn(source, 'endpoint')
      const isOn = isRecord(source) && source['enable_kv_cache_events'] !== false
      if (!isOn || endpoint === undefined || !/^\d+$/.test(rank)) return []
      const replayEndpoint = textIn(source, 'replay_endpoint') ?? null
      const topic = textIn(source, 'topic') ?? ''
      return [{ dpRank: Number(rank), endpoint, replayEndpoint, topic }]
    })
  }

  async tokenize(client: UpstreamClient, text: string): Promise<readonly number[] | null> {
    const answer = await askJson(client, '/tokenize', {
      deadlineMs: DEADLINE_MS,
      body: { prompt: text, add_special_tokens: false },
    })
    return isRecord(answer) && Array.isArray(answer['tokens']) ? idsIn(answer, 'tokens') : null
  }

  async tokenizeChat(
    client: UpstreamClient,
    messages: readonly unknown[],
  ): Promise<readonly number[] | null> {
    const body = { messages, add_generation_prompt: true }
    const answer = await askJson(client, '/tokenize', { deadlineMs: DEADLINE_MS, body })
    return isRecord(answer) && Array.isArray(answer['tokens']) ? idsIn(answer, 'tokens') : null
  }

  #writePrefill(request: GenerateRequest, context: WriteContext): WrittenRequest {
    const { min_tokens: _min, ...body } = completionBody(request, context)
    const { dpRank, prefillDpRank } = request.routing
    // A new id for every attempt, because data that an earlier attempt left at a pushing server must not be found.
    const requestId = `${request.requestId}.${randomUUID()}`
    const written = this.#written(
      {
        path: '/v1/completions',
        body: { ...body, max_tokens: 1, stream: false, kv_transfer_params: KEEP_BLOCKS },
      },
      { ...request, requestId },
      prefillDpRank ?? dpRank,
    )
    const identity = this.#identity
    const reader = new VllmReader(this.#clock, {
      requestId,
      onTransfer: (params) => {
        this.#identity = pushIdentity(params)
      },
    })
    if (identity === null) return { ...written, reader, isWhole: true }
    const meeting = meetingResult(identity, requestId, this.#clock.epochMs())
    return { ...written, reader, isWhole: true, meeting }
  }

  #written(
    { path, body }: { readonly path: string; readonly body: JsonObject },
    { requestId, routing }: GenerateRequest,
    rank: number | undefined,
  ): WrittenRequest {
    const { sessionId } = routing
    return {
      http: {
        method: 'POST',
        path,
        headers: {
          'Content-Type': 'application/json',
          'X-Request-Id': requestId,
          ...(rank === undefined ? {} : { 'X-data-parallel-rank': String(rank) }),
          ...(sessionId === undefined ? {} : { 'X-Session-ID': encodeURIComponent(sessionId) }),
        },
        body: JSON.stringify(body),
      },
      reader: new VllmReader(this.#clock),
    }
  }

  /**
   * A server that is only a consumer reports 0 cached tokens for fetched KV, but its byte counter is correct. It is
   * read for the first few such legs and then occasionally, because it takes a while to answer.
   */
  async #askCounter({ client, signal }: WriteContext): Promise<Pick<Chunk, 'engineData'>> {
    this.#untold += 1
    if (this.#untold > LOOKS_AT_FIRST && this.#untold % LEGS_PER_LOOK !== 0) return {}
    try {
      const before = this.#bytesFetched
      this.#bytesFetched = bytesFetched(await this.#metrics(client, signal))
      return { engineData: { kv_moved: this.#bytesFetched > before } }
    } catch {
      return {}
    }
  }

  /** Metrics are for monitoring: without them the server serves all the same. */
  async #metricsOrNote(
    client: UpstreamClient,
    signal: AbortSignal,
  ): Promise<readonly MetricSample[]> {
    let why = 'it reports none there'
    try {
      const metrics = await this.#metrics(client, signal)
      if (metrics.length > 0) return metrics
    } catch (thrown) {
      if (signal.aborted) throw thrown
      why = BatonError.from(thrown).message
    }
    this.#onNote(
      `does not tell its block size, its data parallel ranks and its load in /metrics (${why}): one rank is assumed, and KV events are not used`,
    )
    return []
  }

  async #metrics(client: UpstreamClient, signal: AbortSignal): Promise<readonly MetricSample[]> {
    const request = { method: 'GET', path: '/metrics' }
    const { status, text } = await fetchWhole(client, request, { deadlineMs: DEADLINE_MS, signal })
    return status === 200 ? parsePrometheus(text, METRICS) : []
  }

  clearCache(client: UpstreamClient): Promise<unknown> {
    return clearByPost(
      client,
      '/reset_prefix_cache',
      'it has the route with VLLM_SERVER_DEV_MODE=1',
    )
  }
}

/** Answers 403 unless the server was started with `--enable-scale-out`, and 400 for a request without tokens. */
async function hasGenerate(client: UpstreamClient, signal: AbortSignal): Promise<boolean> {
  const { status } = await fetchWhole(
    client,
    {
      method: 'POST',
      path: '/inference/v1/generate',
      headers: { 'Content-Type': 'application/json' },
      body: '{"token_ids":[],"sampling_params":{"max_tokens":1}}',
    },
    { deadlineMs: DEADLINE_MS, signal },
  )
  return status === 400 || status === 422
}

function bytesFetched(metrics: readonly MetricSample[]): number {
  return metricValue(metrics, ['vllm:nixl_bytes_transferred_sum']) ?? 0
}

function enginesIn(metrics: readonly MetricSample[]): readonly string[] {
  const running = metricSamples(metrics, ['vllm:num_requests_running'])
  const engines = new Set(running.map(({ labels }) => labels['engine'] ?? '0'))
  return [...engines].toSorted((a, b) => Number(a) - Number(b))
}

function ranksIn(metrics: readonly MetricSample[]): number {
  return enginesIn(metrics).length
}
