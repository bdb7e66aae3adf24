/**
 * `POST /clear_kv_blocks` (Dynamo), `/reset_prefix_cache` (vLLM), `/flush_cache` (SGLang): every worker evicts
 * the KV that no request uses, and the router removes it from its index.
 */
import { parseClearCache, readJsonObject } from '../../api/index.ts'
import { addressText, BatonError } from '../../base/index.ts'
import { modeName } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { jsonReply } from './endpoint-status.ts'

/**
 * `status`: the status when a worker has failed. Dynamo's clients read the lists, clients of the engines read
 * the status.
 */
export async function clearCaches(
  deps: GenerationDeps,
  http: HttpRequest,
  statusOfFailure: 200 | 502,
): Promise<HttpReply> {
  const { registry, commandWorker } = deps
  const body = http.body.length === 0 ? {} : readJsonObject(http.body, http.headers['content-type'])
  const { model, workerId } = parseClearCache(body)
  if (model !== undefined) registry.names.known(model)
  const cards = registry.models
    .filter((served) => model === undefined || served.name === registry.names.known(model).name)
    .flatMap(({ reachable }) => reachable)
    .filter((card) => workerId === undefined || card.workerId === workerId)
  if (workerId !== undefined && cards.length === 0) {
    const text = `worker ${workerId} does not serve here`
    throw new BatonError('request.not_found', text, { data: { param: 'worker_id' } })
  }
  const cleared: unknown[] = []
  const failed: unknown[] = []
  await Promise.all(
    cards.map(async (card) => {
      try {
        if (commandWorker === undefined) {
          throw new BatonError('request.conflict', 'this frontend cannot send commands to workers')
        }
        const response = await commandWorker(card, { command: 'clear_kv' })
        registry.cacheCleared(card.workerId)
        const status = 'Successfully cleared kv blocks for instance'
        cleared.push({ ...named(card), status, response })
      } catch (thrown) {
        const { code, message } = BatonError.from(thrown)
        failed.push({ ...named(card), status: 'Failed to clear kv blocks', error: message, code })
      }
    }),
  )
  const status = failed.length > 0 ? statusOfFailure : 200
  return jsonReply(status, { cleared_workers: cleared, failed_workers: failed })
}

function named({ workerId, engine, mode, host, port }: WorkerCard): Record<string, unknown> {
  const role = modeName(mode)
  return {
    name: `${role}-instance-${workerId}`,
    endpoint: `${addressText(host, port)}/clear_kv_blocks`,
    worker_id: workerId,
    model: engine.servedModelName ?? engine.model,
    role,
  }
}
