/**
 * `/busy_threshold`: the load above which a worker is no candidate; read and changed at run time.
 */
import { parseBusyThreshold, readJsonObject } from '../../api/index.ts'
import type { BusyThresholds } from '../../router/index.ts'
import { jsonReply } from './endpoint-status.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import type { ModelRegistry } from '../models/model-registry.ts'

export function listThresholds(registry: ModelRegistry): HttpReply {
  return jsonReply(200, {
    thresholds: registry.models.map((model) =>
      thresholdsObject(model.name, model.router.busyThresholds()),
    ),
  })
}

export function setThresholds(registry: ModelRegistry, http: HttpRequest): HttpReply {
  const { model: name, update } = parseBusyThreshold(
    readJsonObject(http.body, http.headers['content-type']),
  )
  const model = registry.names.known(name)
  if (Object.keys(update).length > 0) {
    const versions = registry.models.filter((each) => each.name === model.name)
    for (const { router } of versions) router.setBusyThresholds(update)
  }
  return jsonReply(200, thresholdsObject(model.name, model.router.busyThresholds()))
}

function thresholdsObject(model: string, held: BusyThresholds): Record<string, unknown> {
  return {
    model,
    active_decode_blocks_threshold: held.activeDecodeBlocks ?? null,
    active_prefill_tokens_threshold: held.activePrefillTokens ?? null,
    active_prefill_tokens_threshold_frac: held.activePrefillTokensShare ?? null,
  }
}
