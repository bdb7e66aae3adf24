/**
 * What the service says of itself: alive, ready, healthy, which models, why a request ran where it ran.
 */
import { BatonError } from '../base/index.ts'
import {
  anthropicModelListJson,
  anthropicModelObject,
  asciiJson,
  modelListJson,
  modelObject,
  withRawWorkerIds,
} from '../api/index.ts'
import { disaggregationModeToJson } from '../request/index.ts'
import type { HttpReply } from './http-exchange.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { ServedModel } from './served-model.ts'

const JSON_HEADERS = { 'content-type': 'application/json' }

export function jsonReply(status: number, value: unknown): HttpReply {
  return { status, headers: JSON_HEADERS, body: withRawWorkerIds(asciiJson(value)) }
}

/** The process answers; true also while it drains. */
export function liveReply(): HttpReply {
  return jsonReply(200, { status: 'live', message: 'Service is live' })
}

export function readyReply(registry: ModelRegistry, draining: boolean): HttpReply {
  const ready = !draining && registry.models.some((model) => model.isReady)
  return jsonReply(ready ? 200 : 503, { ready, ...(draining ? { reason: 'draining' } : {}) })
}

export function healthReply(registry: ModelRegistry, draining: boolean): HttpReply {
  const models = registry.models
  const ready = models.some((model) => model.isReady)
  const status = draining ? 'draining' : ready ? 'healthy' : 'not_ready'
  return jsonReply(status === 'healthy' ? 200 : 503, {
    status,
    message: draining
      ? 'Service admits nothing new'
      : ready
        ? 'Service is healthy'
        : (models[0]?.notReadyReason() ?? 'no worker is registered'),
    warnings: models.flatMap((model) => model.router.status().warnings),
    models: models.map(modelHealth),
  })
}

function modelHealth(model: ServedModel): Record<string, unknown> {
  const { disaggregation, selfCheck, warnings } = model.router.status()
  return {
    name: model.name,
    ready: model.isReady,
    ...(model.isReady ? {} : { reason: model.notReadyReason() }),
    disaggregation,
    self_check: selfCheck,
    warnings,
    workers: model.cards.map((card) => ({
      worker_id: card.workerId,
      mode: disaggregationModeToJson(card.mode),
      engine: card.engineName,
      host: card.host,
      port: card.port,
      ...(card.pid === undefined ? {} : { pid: card.pid }),
      version: card.version,
    })),
  }
}

/** Which API shows the models. */
export type ModelForm = 'openai' | 'anthropic'

export function modelsReply(registry: ModelRegistry, form: ModelForm): HttpReply {
  const entries = registry.servedNames().map(([name, model]) => entryOf(name, model))
  const body = form === 'openai' ? modelListJson(entries) : anthropicModelListJson(entries)
  return { status: 200, headers: JSON_HEADERS, body }
}

/** `{id}` may hold slashes; with `/ready` behind it the question is whether it can be served. */
export function modelReply(registry: ModelRegistry, id: string, form: ModelForm): HttpReply {
  const exact = registry.find(id)
  if (exact !== undefined) {
    if (!exact.isReady) throw exact.notReady()
    const entry = entryOf(id, exact)
    return jsonReply(200, form === 'openai' ? modelObject(entry) : anthropicModelObject(entry))
  }
  const asksReady = id.endsWith('/ready')
  const model = registry.known(asksReady ? id.slice(0, -'/ready'.length) : id)
  const ready = model.isReady
  const counts: Record<string, number> = {}
  for (const { mode } of model.cards) {
    const name = disaggregationModeToJson(mode)
    counts[name] = (counts[name] ?? 0) + 1
  }
  return jsonReply(200, {
    model: model.name,
    ready,
    ...(ready ? {} : { reason: model.notReadyReason() }),
    worker_types: counts,
  })
}

function entryOf(name: string, model: ServedModel) {
  const { contextLength } = model
  return {
    name,
    createdSeconds: model.createdSeconds,
    ...(contextLength === undefined ? {} : { contextLength }),
  }
}

/** The decisions about one request: every candidate with the terms of its cost. */
export function explainReply(registry: ModelRegistry, requestId: string): HttpReply {
  const found = registry.decisionsOf(requestId)
  if (found !== null) {
    const { model, decisions } = found
    return jsonReply(200, { request_id: requestId, model: model.name, decisions })
  }
  throw new BatonError(
    'request.not_found',
    `request ${requestId} is not known, or no longer: only the last decisions are kept`,
  )
}
