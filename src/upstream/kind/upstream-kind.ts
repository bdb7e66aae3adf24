/**
 * Detects the kind of server at an address, and its role, by asking it.
 *
 * Owns: the questions and the meaning of their answers. The first matching answer counts; a server that matches none
 * is a generic OpenAI server.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import { askJson, fetchWhole, jsonOf } from '../client/fetch-json.ts'
import { firstModel } from '../client/model-list.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { errorOfResponse, isAccessRefusal } from '../dialects/upstream-error.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'

export interface FoundKind {
  readonly kind: UpstreamKind
  readonly version: string | null
  /** The role that the server reports; null: none. */
  readonly mode: DisaggregationMode | null
}

const DEADLINE_MS = 10_000

/**
 * Rejects with `transport.…` when nothing answers, and with `backend.worker_unavailable` while the server loads its
 * model: a llama-server answers everything with 503 then and could be taken for any server.
 */
export async function detectKind(client: UpstreamClient, signal?: AbortSignal): Promise<FoundKind> {
  const first = await foundNow(client, signal)
  if (!first.isUnsure) return first.found
  const options = { deadlineMs: DEADLINE_MS, ...(signal === undefined ? {} : { signal }) }
  if ((await askJson(client, '/v1/models', options)) === null) {
    throw new BatonError('backend.worker_unavailable', 'the engine is still loading its model')
  }
  // It may have become ready just now; or 503 is its answer for an unknown route.
  return (await foundNow(client, signal)).found
}

/** `isUnsure`: a question was answered with 503, so the kind may be another than it seems. */
async function foundNow(
  client: UpstreamClient,
  signal: AbortSignal | undefined,
): Promise<{ readonly found: FoundKind; readonly isUnsure: boolean }> {
  let isUnsure = false
  const found = await kindBy(
    async (path) => {
      const options = { deadlineMs: DEADLINE_MS, ...(signal === undefined ? {} : { signal }) }
      const { status, text } = await fetchWhole(client, { method: 'GET', path }, options)
      if (status === 503) isUnsure = true
      return status === 200 ? jsonOf(text) : null
    },
    client,
    signal,
  )
  return { found, isUnsure: isUnsure && found.kind === 'openai' }
}

async function kindBy(
  ask: (path: string) => Promise<unknown>,
  client: UpstreamClient,
  signal: AbortSignal | undefined,
): Promise<FoundKind> {
  const props = await ask('/props')
  if (isLlamaServer(props)) {
    const build = isRecord(props) ? props['build_info'] : undefined
    return { kind: 'llama-server', version: typeof build === 'string' ? build : null, mode: null }
  }
  const info = (await ask('/model_info')) ?? (await ask('/get_model_info'))
  if (isRecord(info) && typeof info['model_path'] === 'string') {
    // Older versions report their role only among the server's arguments.
    const said = 'disaggregation_mode' in info ? info : await serverInfoOf(ask)
    return { kind: 'sglang', version: null, mode: sglangMode(said['disaggregation_mode']) }
  }
  const version = await ask('/version')
  if (isRecord(version) && typeof version['version'] === 'string') {
    if (await isVllm(client, signal)) {
      return { kind: 'vllm', version: version['version'], mode: null }
    }
  }
  return { kind: 'openai', version: null, mode: null }
}

async function serverInfoOf(
  ask: (path: string) => Promise<unknown>,
): Promise<Readonly<Record<string, unknown>>> {
  const server = (await ask('/server_info')) ?? (await ask('/get_server_info'))
  return isRecord(server) ? server : {}
}

/** With `--props` off the server still answers; slots and a template identify it. */
function isLlamaServer(props: unknown): boolean {
  return isRecord(props) && typeof props['total_slots'] === 'number'
}

function sglangMode(said: unknown): DisaggregationMode | null {
  if (said === 'prefill' || said === 'decode') return said
  return said === 'null' || said === null ? 'agg' : null
}

/** Other servers have `/version` too; vLLM names itself in its list of models and has `/ping`. */
async function isVllm(client: UpstreamClient, signal?: AbortSignal): Promise<boolean> {
  const options = { deadlineMs: DEADLINE_MS, ...(signal === undefined ? {} : { signal }) }
  const request = { method: 'GET', path: '/v1/models' }
  const answer = await fetchWhole(client, request, options)
  // Taken for another kind it would be served without its model.
  if (isAccessRefusal(answer.status)) throw errorOfResponse(answer.status, answer.text)
  const first = firstModel(answer.status === 200 ? jsonOf(answer.text) : null)
  if (first?.['owned_by'] === 'vllm') return true
  const { status } = await fetchWhole(client, { method: 'GET', path: '/ping' }, options)
  return status === 200 && typeof first?.['max_model_len'] === 'number'
}
