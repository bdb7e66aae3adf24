/**
 * What vLLM's prefill leg tells the decode leg (`kv_transfer_params` of the NIXL connector), carried as it came.
 *
 * Owns: the envelope in which Baton carries it, and when it is not used: without blocks, with a number that JavaScript
 * cannot hold, or when so much of the lease has passed that the blocks may be another prompt's by now.
 */
import { isRecord } from '../../base/index.ts'
import type { PrefillResult } from '../../request/index.ts'
import type { JsonObject } from './plain-values.ts'

/** What a prefill leg asks for: keep the blocks, and say where they are. */
export const KEEP_BLOCKS: JsonObject = {
  do_remote_decode: true,
  do_remote_prefill: false,
  remote_engine_id: null,
  remote_block_ids: null,
  remote_host: null,
  remote_port: null,
}

const ENVELOPE = 'vllm_kv_transfer'
/** vLLM keeps the blocks for 30 s after the prefill leg. */
const USABLE_MS = 20_000

/**
 * Null: the leg left nothing that a decode leg could fetch. `requestId`: how the leg was called; the decode leg is called
 * the same.
 */
export function prefillResultOf(
  params: unknown,
  epochMs: number,
  requestId?: string,
): PrefillResult | null {
  if (!isRecord(params) || params['do_remote_prefill'] !== true) return null
  const isPull = params['transfer_mode'] !== 'push'
  if (isPull && !hasBlocks(params['remote_block_ids'])) return null
  if (!isExact(params)) return null
  const named = requestId === undefined ? {} : { requestId }
  return { engineParams: { [ENVELOPE]: { params, epochMs, ...named } } }
}

/** What the decode leg is sent; null: nothing, it computes the prompt itself. */
export function paramsOfPrefill(
  result: PrefillResult | undefined,
  epochMs: number,
): JsonObject | null {
  const { engineParams } = result ?? {}
  const carried = isRecord(engineParams) ? engineParams[ENVELOPE] : undefined
  if (!isRecord(carried) || !isRecord(carried['params'])) return null
  const at = carried['epochMs']
  // Clocks of two machines differ; a clock that is ahead is accepted.
  if (typeof at === 'number' && epochMs - at > USABLE_MS) return null
  return carried['params']
}

/**
 * Of a server that pushes (`NixlPushConnector`): what of its answers names the server, and not the request. With it both
 * legs can run at once: decode tells prefill where its blocks are, and prefill writes into them.
 */
export function pushIdentity(params: unknown): JsonObject | null {
  if (!isRecord(params) || params['transfer_mode'] !== 'push' || !isExact(params)) return null
  const { remote_engine_id: engine, remote_host: host, remote_port: port } = params
  if (typeof engine !== 'string' || typeof host !== 'string' || typeof port !== 'number') {
    return null
  }
  const named = Object.entries(params).filter(([key]) => !OF_REQUEST.has(key))
  return Object.fromEntries(named)
}

const OF_REQUEST: ReadonlySet<string> = new Set([
  'do_remote_prefill',
  'do_remote_decode',
  'remote_block_ids',
  'remote_request_id',
  'remote_num_tokens',
  'remote_blocks_expiry_time',
  'remote_prefill_cached_tokens',
])

/** What a decode leg is told while its prefill leg runs; the two are known to belong together by the request's id. */
export function meetingResult(
  identity: JsonObject,
  requestId: string,
  epochMs: number,
): PrefillResult {
  const params = {
    ...identity,
    do_remote_prefill: true,
    do_remote_decode: false,
    remote_block_ids: [],
    remote_request_id: `cmpl-${requestId}-0`,
  }
  return { engineParams: { [ENVELOPE]: { params, epochMs, requestId } }, meetsDecode: true }
}

/** How the prefill leg was called; undefined: that does not matter. */
export function requestIdOfPrefill(result: PrefillResult | undefined): string | undefined {
  const { engineParams } = result ?? {}
  const carried = isRecord(engineParams) ? engineParams[ENVELOPE] : undefined
  const id = isRecord(carried) ? carried['requestId'] : undefined
  return typeof id === 'string' ? id : undefined
}

/** A list of ids, or in newer versions one list for each group of the cache. */
function hasBlocks(blocks: unknown): boolean {
  if (!Array.isArray(blocks)) return false
  return (blocks as unknown[]).flat().length > 0
}

function isExact(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isInteger(value) || Number.isSafeInteger(value)
  if (Array.isArray(value)) return (value as unknown[]).every(isExact)
  return !isRecord(value) || Object.values(value).every(isExact)
}
