/**
 * The dialect of llama-server (llama.cpp): token ids through its own route `/completion`.
 *
 * Requirements: every request is streamed, because only a stream is cancelled when its connection closes; a
 * connection is not reused after a stream, because the server may close it without notice; every sampling value is
 * sent, because the server's defaults are not neutral; progress events contain a token 0 that does not count.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type { DisaggregationMode, GenerateRequest } from '../../request/index.ts'
import { eraseSlots } from '../client/clear-cache.ts'
import { askJson, fetchWhole, jsonOf } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { metricValue, parsePrometheus } from '../load/prometheus-text.ts'
import { firstModel } from '../client/model-list.ts'
import type { Dialect, UpstreamFacts, WriteContext, WrittenRequest } from './dialect.ts'
import { LlamaSlots } from './llama-slots.ts'
import { idsIn, numberIn, textIn } from './plain-values.ts'
import type { JsonObject } from './plain-values.ts'
import { slotCountIn } from './slot-pool.ts'
import { TenantSlots } from './tenant-slots.ts'

const DEADLINE_MS = 10_000

export class LlamaServerDialect implements Dialect {
  readonly knowsMinTokens = false
  readonly #slots: LlamaSlots | null
  #tenants: TenantSlots | null = null

  /**
   * A server with a prefill or decode role transfers KV in files of `slotFolder`. Throws `config.invalid` without
   * one.
   */
  constructor(mode: DisaggregationMode, slotFolder: string | undefined) {
    if (mode !== 'agg' && slotFolder === undefined) {
      throw new BatonError(
        'config.invalid',
        `llama-server as ${mode} worker: --slot-save-path is missing, the folder with that option of both servers`,
      )
    }
    this.#slots = mode === 'agg' || slotFolder === undefined ? null : new LlamaSlots(slotFolder)
  }

  async describe(client: UpstreamClient, signal: AbortSignal): Promise<UpstreamFacts> {
    const options = { deadlineMs: DEADLINE_MS, signal }
    const health = await fetchWhole(client, { method: 'GET', path: '/health' }, options)
    if (health.status !== 200) {
      throw new BatonError('backend.worker_unavailable', 'llama-server is still loading its model')
    }
    const props = await askJson(client, '/props', options)
    const model = firstModel(await askJson(client, '/v1/models', options))
    const slots = slotCountIn(props)
    await this.#slots?.open(slots)
    this.#tenants = new TenantSlots(slots, client)
    const contextLength =
      numberIn(props, 'default_generation_settings', 'n_ctx') ?? numberIn(model, 'meta', 'n_ctx')
    const vocabSize = numberIn(model, 'meta', 'n_vocab')
    const modelPath = textIn(props, 'model_path')
    const chatTemplate = textIn(props, 'chat_template')
    return {
      model: textIn(props, 'model_alias') ?? textIn(model, 'id') ?? 'default',
      sequences: slots,
      features: ['logprobs', 'guided', 'gbnf', 'penalties', 'logit_bias', 'min_p', 'seed'],
      ...(contextLength === undefined ? {} : { contextLength }),
      ...(vocabSize === undefined ? {} : { vocabSize }),
      ...(modelPath === undefined ? {} : { modelPath }),
      ...(chatTemplate === undefined ? {} : { chatTemplate }),
    }
  }

  write(request: GenerateRequest, context: WriteContext): WrittenRequest | Promise<WrittenRequest> {
    if (this.#slots === null) {
      this.#tenants ??= new TenantSlots(1, context.client)
      return this.#tenants.write(request, context)
    }
    return context.mode === 'prefill'
      ? this.#slots.writePrefill(request, context)
      : this.#slots.writeDecode(request, context)
  }

  async close(): Promise<void> {
    await this.#slots?.close()
  }

  async identity(client: UpstreamClient, deadlineMs: number): Promise<JsonObject> {
    const props = await askJson(client, '/props', { deadlineMs })
    if (!isRecord(props)) return {}
    const { model_path, chat_template, total_slots } = props
    return { model_path, chat_template, total_slots }
  }

  async load(client: UpstreamClient, deadlineMs: number): Promise<readonly LoadReport[] | null> {
    const answer = await fetchWhole(client, { method: 'GET', path: '/metrics' }, { deadlineMs })
    if (answer.status !== 200) return await loadOfSlots(client, deadlineMs)
    const metrics = parsePrometheus(answer.text)
    const running = metricValue(metrics, ['llamacpp:requests_processing'])
    const queued = metricValue(metrics, ['llamacpp:requests_deferred'])
    if (running === null) return null
    return [
      {
        dpRank: 0,
        activeBlocks: 0,
        totalBlocks: 0,
        runningRequests: running,
        queuedRequests: queued ?? 0,
        prefillTokensInFlight: 0,
      },
    ]
  }

  async tokenizeChat(
    client: UpstreamClient,
    messages: readonly unknown[],
  ): Promise<readonly number[] | null> {
    const body = { messages }
    const answer = await askJson(client, '/apply-template', { deadlineMs: DEADLINE_MS, body })
    const prompt = textIn(answer, 'prompt')
    return prompt === undefined ? null : await this.tokenize(client, prompt)
  }

  async tokenize(client: UpstreamClient, text: string): Promise<readonly number[] | null> {
    const body = { content: text, add_special: false, parse_special: true }
    const { status, text: answer } = await fetchWhole(
      client,
      {
        method: 'POST',
        path: '/tokenize',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(body),
      },
      { deadlineMs: DEADLINE_MS },
    )
    if (status !== 200) return null
    const json = jsonOf(answer)
    return isRecord(json) && Array.isArray(json['tokens']) ? idsIn(json, 'tokens') : null
  }

  clearCache(client: UpstreamClient): Promise<unknown> {
    return eraseSlots(client)
  }
}

/** The number of busy slots, without `--metrics`. Null: `--no-slots` as well. */
async function loadOfSlots(
  client: UpstreamClient,
  deadlineMs: number,
): Promise<readonly LoadReport[] | null> {
  const { status, text } = await fetchWhole(
    client,
    { method: 'GET', path: '/slots' },
    { deadlineMs },
  )
  const slots = status === 200 ? jsonOf(text) : null
  if (!Array.isArray(slots)) return null
  const busy = slots.filter((slot) => isRecord(slot) && slot['is_processing'] === true)
  return [
    {
      dpRank: 0,
      activeBlocks: 0,
      totalBlocks: 0,
      runningRequests: busy.length,
      queuedRequests: 0,
      prefillTokensInFlight: 0,
    },
  ]
}
