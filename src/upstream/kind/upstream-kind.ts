/**
 * Which server is behind an address, and which part of a request it takes: found by asking it.
 *
 * Owns: the questions and what their answers mean. The first answer that fits counts; a server that answers none of
 * them is an OpenAI server like any other.
 */
import { isRecord } from '../../base/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import { askJson, fetchWhole } from '../client/fetch-json.ts'
import { firstModel } from '../client/model-list.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'

export interface FoundKind {
  readonly kind: UpstreamKind
  readonly version: string | null
  /** What the server says of its own role; null: it does not say. */
  readonly mode: DisaggregationMode | null
}

const DEADLINE_MS = 10_000

/** Rejects with `transport.…` when there is no answer at the address. */
export async function detectKind(client: UpstreamClient, signal?: AbortSignal): Promise<FoundKind> {
  const ask = (path: string): Promise<unknown> =>
    askJson(client, path, { deadlineMs: DEADLINE_MS, ...(signal === undefined ? {} : { signal }) })
  const props = await ask('/props')
  if (isLlamaServer(props)) {
    const build = isRecord(props) ? props['build_info'] : undefined
    return { kind: 'llama-server', version: typeof build === 'string' ? build : null, mode: null }
  }
  const info = (await ask('/model_info')) ?? (await ask('/get_model_info'))
  if (isRecord(info) && typeof info['model_path'] === 'string') {
    return { kind: 'sglang', version: null, mode: sglangMode(info['disaggregation_mode']) }
  }
  const version = await ask('/version')
  if (isRecord(version) && typeof version['version'] === 'string') {
    if (await isVllm(client, signal)) {
      return { kind: 'vllm', version: version['version'], mode: null }
    }
  }
  return { kind: 'openai', version: null, mode: null }
}

/** With `--props` off the server still answers; who has slots and a template is no other. */
function isLlamaServer(props: unknown): boolean {
  return isRecord(props) && typeof props['total_slots'] === 'number'
}

function sglangMode(said: unknown): DisaggregationMode | null {
  if (said === 'prefill' || said === 'decode') return said
  return said === 'null' || said === null ? 'agg' : null
}

/** Others have `/version` too; vLLM names itself in its list of models and has `/ping`. */
async function isVllm(client: UpstreamClient, signal?: AbortSignal): Promise<boolean> {
  const options = { deadlineMs: DEADLINE_MS, ...(signal === undefined ? {} : { signal }) }
  const models = await askJson(client, '/v1/models', options)
  const first = firstModel(models)
  if (first?.['owned_by'] === 'vllm') return true
  const { status } = await fetchWhole(client, { method: 'GET', path: '/ping' }, options)
  return status === 200 && typeof first?.['max_model_len'] === 'number'
}
