/**
 * The dialect of SGLang: token ids through its own route `/generate`.
 *
 * Requirements: events repeat all earlier output, so only the new part counts; the request id must be unguessable,
 * because an abort ends every request whose id starts with the given text; no id outside the vocabulary, which would
 * crash the server (checked before any dialect is called). KV transfer: both legs are sent at once with the same
 * bootstrap room.
 */
import { randomUUID } from 'node:crypto'
import { BatonError, isRecord } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { GenerateRequest, TokenLogprob, TokenLogprobs } from '../../request/index.ts'
import { guidedGrammar } from '../../text/index.ts'
import { clearByPost } from '../client/clear-cache.ts'
import { askJson, fetchWhole, jsonOf } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { KvEventPlace } from '../events/kv-event-feed.ts'
import { adapterNames, modelEntries, modelsAndAdapters } from '../client/model-list.ts'
import type {
  Dialect,
  Piece,
  PieceReader,
  UpstreamFacts,
  WriteContext,
  WrittenRequest,
} from './dialect.ts'
import { countIn, given, idsIn, listIn, numberIn, textIn } from './plain-values.ts'
import type { JsonObject } from './plain-values.ts'
import { outputIdsIn } from './output-ids.ts'
import {
  abortedByEngine,
  countMismatch,
  errorOfEvent,
  errorOfResponse,
  withoutIds,
} from './upstream-error.ts'

const DEADLINE_MS = 15_000

export class SglangDialect implements Dialect {
  readonly knowsMinTokens = true
  readonly hasAdapters = true

  async describe(client: UpstreamClient, signal: AbortSignal): Promise<UpstreamFacts> {
    const options = { deadlineMs: DEADLINE_MS, signal }
    const health = await fetchWhole(client, { method: 'GET', path: '/health' }, options)
    if (health.status >= 500) {
      throw new BatonError('backend.worker_unavailable', 'SGLang is still loading its model')
    }
    const info =
      (await askJson(client, '/model_info', options)) ??
      (await askJson(client, '/get_model_info', options))
    const server = await serverInfo(client, signal)
    const entries = modelEntries(await askJson(client, '/v1/models', options))
    const [model] = modelsAndAdapters(entries).models
    const adapters = adapterNames(entries)
    const contextLength = numberIn(model, 'max_model_len') ?? numberIn(server, 'context_length')
    const vocabSize = numberIn(server, 'vocab_size') ?? numberIn(info, 'vocab_size')
    const modelPath = textIn(info, 'tokenizer_path') ?? textIn(info, 'model_path')
    const pageTokens = numberIn(server, 'page_size')
    const tokens = numberIn(server, 'max_total_num_tokens')
    const ranks = numberIn(server, 'dp_size') ?? 1
    const sequences = sequencesOfRank(server)
    const role = textIn(info, 'disaggregation_mode') ?? textIn(server, 'disaggregation_mode')
    const isPrefill = role === 'prefill'
    const bootstrapPort = numberIn(server, 'disaggregation_bootstrap_port')
    return {
      model: textIn(info, 'served_model_name') ?? textIn(model, 'id') ?? 'default',
      features: ['logprobs', 'guided', 'gbnf', 'penalties', 'logit_bias', 'min_p', 'seed'],
      ...(adapters.length === 0 ? {} : { loraAdapters: adapters }),
      ...(contextLength === undefined ? {} : { contextLength }),
      ...(vocabSize === undefined ? {} : { vocabSize }),
      ...(modelPath === undefined ? {} : { modelPath }),
      ...(sequences === undefined ? {} : { sequences }),
      ...(ranks > 1 ? { ranks } : {}),
      ...(pageTokens === undefined ? {} : { kvBlockTokens: pageTokens }),
      ...(pageTokens === undefined || tokens === undefined
        ? {}
        : { kvBlocks: Math.floor(tokens / pageTokens) }),
      ...(isPrefill && bootstrapPort !== undefined
        ? { bootstrapHost: client.url.host, bootstrapPort }
        : {}),
    }
  }

  write(request: GenerateRequest, context: WriteContext): WrittenRequest {
    const { bootstrap, routing } = request
    const isPrefill = context.mode === 'prefill'
    if (bootstrap === undefined && context.mode !== 'agg') throw apartOnly()
    const rid = randomUUID()
    const { dpRank, prefillDpRank } = routing
    const ownRank = isPrefill ? (prefillDpRank ?? dpRank) : dpRank
    const body = {
      ...generateBody(request, context, isPrefill),
      rid,
      ...(ownRank === undefined ? {} : { routed_dp_rank: ownRank }),
      ...(bootstrap === undefined
        ? {}
        : {
            bootstrap_host: bootstrap.host,
            bootstrap_port: bootstrap.port,
            bootstrap_room: BOOTSTRAP_ROOM,
          }),
    }
    return {
      http: {
        method: 'POST',
        path: '/generate',
        headers: { 'Content-Type': 'application/json' },
        body: withBootstrapRoom(JSON.stringify(body), bootstrap?.room),
        ...(bootstrap === undefined ? {} : { retries: false }),
      },
      reader: new GenerateReader(),
    }
  }

  async identity(client: UpstreamClient, deadlineMs: number): Promise<JsonObject> {
    const info = await askJson(client, '/model_info', { deadlineMs })
    const server = await askJson(client, '/server_info', { deadlineMs })
    return given({
      model_path: textIn(info, 'model_path'),
      disaggregation_mode: textIn(info, 'disaggregation_mode'),
      page_size: numberIn(server, 'page_size'),
      dp_size: numberIn(server, 'dp_size'),
      disaggregation_bootstrap_port: numberIn(server, 'disaggregation_bootstrap_port'),
    })
  }

  async load(client: UpstreamClient, deadlineMs: number): Promise<readonly LoadReport[] | null> {
    const answer = await fetchWhole(client, { method: 'GET', path: '/v1/loads' }, { deadlineMs })
    if (answer.status !== 200) return null
    return listIn(jsonOf(answer.text), 'loads').map((load, index) => ({
      dpRank: numberIn(load, 'dp_rank') ?? index,
      // In tokens instead of blocks: only the ratio matters.
      activeBlocks: numberIn(load, 'num_used_tokens') ?? 0,
      totalBlocks: numberIn(load, 'max_total_num_tokens') ?? 0,
      runningRequests: numberIn(load, 'num_running_reqs') ?? 0,
      queuedRequests: numberIn(load, 'num_waiting_reqs') ?? 0,
      prefillTokensInFlight: numberIn(load, 'num_waiting_uncached_tokens') ?? 0,
    }))
  }

  async kvEventPlaces(
    client: UpstreamClient,
    signal: AbortSignal,
  ): Promise<readonly KvEventPlace[]> {
    const server = await serverInfo(client, signal)
    const written = isRecord(server) ? server['kv_events_config'] : null
    const config = typeof written === 'string' ? jsonOf(written) : written
    const endpoint = textIn(config, 'endpoint')
    if (endpoint === undefined || textIn(config, 'publisher') !== 'zmq') return []
    const topic = textIn(config, 'topic') ?? ''
    const replay = textIn(config, 'replay_endpoint')
    const ranks = numberIn(server, 'dp_size') ?? 1
    return Array.from({ length: ranks }, (_, dpRank) => ({
      dpRank,
      topic,
      endpoint: withPort(endpoint, dpRank),
      replayEndpoint: replay === undefined ? null : withPort(replay, dpRank),
    }))
  }

  async tokenize(client: UpstreamClient, text: string): Promise<readonly number[] | null> {
    const answer = await askJson(client, '/tokenize', {
      deadlineMs: DEADLINE_MS,
      body: { prompt: text, add_special_tokens: false },
    })
    return isRecord(answer) && Array.isArray(answer['tokens']) ? idsIn(answer, 'tokens') : null
  }

  clearCache(client: UpstreamClient): Promise<unknown> {
    return clearByPost(client, '/flush_cache', 'its version has no such route')
  }
}

/**
 * A bootstrap room has up to 63 bits, more than a JavaScript number can hold, so its digits are inserted into the
 * JSON text.
 */
const BOOTSTRAP_ROOM = 'baton-room'

function withBootstrapRoom(body: string, room: string | undefined): string {
  if (room === undefined) return body
  const digits = /^\d{1,19}$/.test(room) ? room : '0'
  return body.replace(`"bootstrap_room":"${BOOTSTRAP_ROOM}"`, `"bootstrap_room":${digits}`)
}

function withPort(endpoint: string, dpRank: number): string {
  return endpoint.replace(/:(\d+)$/, (_, port: string) => `:${Number(port) + dpRank}`)
}

async function serverInfo(client: UpstreamClient, signal: AbortSignal): Promise<unknown> {
  const options = { deadlineMs: DEADLINE_MS, signal }
  return (
    (await askJson(client, '/server_info', options)) ??
    (await askJson(client, '/get_server_info', options))
  )
}

/**
 * Requests that one rank computes at the same time. The option `max_running_requests` is null unless it was given, and with
 * data parallel attention the ranks share it; the schedulers report what came of it, alike on each rank.
 */
function sequencesOfRank(server: unknown): number | undefined {
  const [scheduler] = listIn(server, 'internal_states')
  const effective = numberIn(scheduler, 'effective_max_running_requests_per_dp')
  if (effective !== undefined) return effective
  const option = numberIn(server, 'max_running_requests')
  if (option === undefined) return undefined
  const isShared = isRecord(server) && server['enable_dp_attention'] === true
  const sharing = isShared ? (numberIn(server, 'dp_size') ?? 1) : 1
  return Math.max(1, Math.floor(option / sharing))
}

function generateBody(
  request: GenerateRequest,
  { facts }: WriteContext,
  isPrefill: boolean,
): JsonObject {
  const { sampling, stop, output, routing, tokenIds, resumedTokens = 0 } = request
  const { topK, guided } = sampling
  const salt = routing.cacheSalt === '' ? undefined : routing.cacheSalt
  const { logprobs } = output
  const tokensMax = stop.maxTokens ?? Math.max(1, (facts.contextLength ?? 4096) - tokenIds.length)
  const minTokens = Math.max(0, (stop.minTokens ?? 0) - resumedTokens)
  return given({
    input_ids: [...tokenIds],
    sampling_params: given({
      max_new_tokens: isPrefill ? 1 : tokensMax,
      min_new_tokens: minTokens > 0 && !isPrefill ? minTokens : undefined,
      temperature: sampling.temperature ?? 1,
      top_p: sampling.topP ?? 1,
      top_k: topK === undefined || topK <= 0 ? -1 : topK,
      min_p: sampling.minP ?? 0,
      sampling_seed: sampling.seed,
      presence_penalty: sampling.presencePenalty,
      frequency_penalty: sampling.frequencyPenalty,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: sampling.logitBias,
      stop_token_ids: stop.stopTokenIds,
      ignore_eos: stop.ignoreEos === true ? true : undefined,
      skip_special_tokens: false,
      ...(guided === undefined ? {} : guidedOf(guided)),
    }),
    stream: true,
    return_logprob: logprobs === undefined ? undefined : true,
    top_logprobs_num: logprobs,
    logprob_start_len: logprobs === undefined ? undefined : -1,
    lora_path: routing.loraName,
    // KV events name only `cache_salt`; versions without it know only `extra_key`, and ignore the other.
    extra_key: salt,
    cache_salt: salt,
  })
}

function guidedOf(guided: NonNullable<GenerateRequest['sampling']['guided']>): JsonObject {
  switch (guided.kind) {
    case 'json':
      return { json_schema: '{"type":"object"}' }
    case 'json-schema':
      return { json_schema: JSON.stringify(guided.schema) }
    case 'regex':
      return { regex: guided.pattern }
    case 'choice':
    case 'grammar':
      return { ebnf: guidedGrammar(guided) }
  }
}

class GenerateReader implements PieceReader {
  #told = 0
  /** Null: not known yet. */
  #isIncremental: boolean | null = null
  #logprobsTold = 0

  read(json: unknown): Piece | null {
    const error = errorOfEvent(json)
    if (error !== null) return { tokenIds: [], error }
    const finish = finishIn(json)
    if (finish === 'failed') return { tokenIds: [], error: abortIn(json) }
    const hasText = (textIn(json, 'text') ?? '') !== ''
    if (hasText && isRecord(json) && !Array.isArray(json['output_ids'])) {
      return { tokenIds: [], error: withoutIds() }
    }
    const cachedTokens = countIn(json, 'meta_info', 'cached_tokens')
    const promptTokens = countIn(json, 'meta_info', 'prompt_tokens')
    const reason = isRecord(json) ? matchedIn(json) : undefined
    const tokenIds = this.#newIds(json)
    const logprobs = this.#newLogprobs(json)
    return {
      tokenIds,
      ...(logprobs.length === 0 ? {} : { logprobs }),
      ...(finish === null ? {} : { finish }),
      ...(finish === null || reason === undefined ? {} : { stopReason: reason }),
      ...(cachedTokens === undefined ? {} : { cachedTokens }),
      ...(promptTokens === undefined ? {} : { promptTokens }),
    }
  }

  /**
   * Each event repeats all ids; with `--incremental-streaming-output` it contains only new ones. The count of the second
   * event tells which, and a wrong guess would give tokens twice. Later counts of a server that repeats all may include
   * tokens that it does not show.
   */
  #newIds(json: unknown): readonly number[] {
    const ids = outputIdsIn(json, 'output_ids')
    if (ids.length === 0) return ids
    const told = this.#told
    const count = countIn(json, 'meta_info', 'completion_tokens') ?? ids.length
    const isNew = told + ids.length === count && this.#isIncremental !== false
    const isAll = this.#isIncremental === false || (ids.length >= count && !this.#isIncremental)
    if (!isAll && !isNew) throw countMismatch()
    // Of the first tokens both are true.
    if (told > 0) this.#isIncremental ??= isNew
    const fresh = isAll ? ids.slice(told) : ids
    this.#told += fresh.length
    return fresh
  }

  #newLogprobs(json: unknown): readonly TokenLogprobs[] {
    const all = listIn(json, 'meta_info', 'output_token_logprobs')
    const tops = listIn(json, 'meta_info', 'output_top_logprobs')
    const isAll = all.length >= this.#told
    const from = isAll ? this.#logprobsTold : 0
    const fresh = all.slice(from, isAll ? this.#told : all.length).flatMap((entry, i) => {
      const chosen = logprobOf(entry)
      if (chosen === null) return []
      const rivals = tops[from + i]
      const top = Array.isArray(rivals)
        ? (rivals as unknown[]).map(logprobOf).filter((rival) => rival !== null)
        : []
      return [{ ...chosen, top }]
    })
    this.#logprobsTold += fresh.length
    return fresh
  }
}

/** `[logprob, id, text or null]`. */
function logprobOf(entry: unknown): TokenLogprob | null {
  if (!Array.isArray(entry)) return null
  const [logprob, tokenId] = entry as unknown[]
  if (typeof tokenId !== 'number') return null
  return { tokenId, logprob: typeof logprob === 'number' ? logprob : -Infinity }
}

function finishIn(json: unknown): 'stop' | 'length' | 'failed' | null {
  const type = textIn(json, 'meta_info', 'finish_reason', 'type')
  if (type === undefined) return null
  if (type === 'abort') return 'failed'
  return type === 'length' ? 'length' : 'stop'
}

/** With a status it is an answer like a refusal; without one the engine was told to end the request. */
function abortIn(json: unknown): BatonError {
  const status = numberIn(json, 'meta_info', 'finish_reason', 'status_code')
  if (status !== undefined && status >= 400) {
    const message = textIn(json, 'meta_info', 'finish_reason', 'message') ?? ''
    return errorOfResponse(status, JSON.stringify({ error: { message } }))
  }
  return abortedByEngine()
}

function matchedIn(json: unknown): number | string | undefined {
  return (
    numberIn(json, 'meta_info', 'finish_reason', 'matched') ??
    textIn(json, 'meta_info', 'finish_reason', 'matched')
  )
}

/** SGLang servers with a role refuse requests without a bootstrap room. */
export function apartOnly(): BatonError {
  return new BatonError(
    'backend.worker_unavailable',
    'prefill and decode servers of SGLang can answer only together, and no prefill server is available',
    { data: { stage: 'prefill' } },
  )
}
