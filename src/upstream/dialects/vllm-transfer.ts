/**
 * Carries the transfer parameters of vLLM's prefill leg (`kv_transfer_params` of the NIXL connector) unchanged to
 * the decode leg.
 *
 * Owns: the envelope, and when the parameters are not used: without blocks, nested too deep, with a number that
 * JavaScript cannot represent, or when so much of the lease has passed that the blocks may already belong to another prompt.
 */
import { isRecord, isU32, JSON_DEPTH_MAX } from '../../base/index.ts'
import type { PrefillResult } from '../../request/index.ts'
import type { JsonObject } from './plain-values.ts'

/** Parameters of a prefill leg: keep the blocks, and report where they are. */
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

/** Null: the leg left nothing to fetch. `requestId`: the id of the leg, which the decode leg uses as well. */
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

/** The parameters of the decode leg; null: none, it computes the prompt itself. */
export function paramsOfPrefill(
  result: PrefillResult | undefined,
  epochMs: number,
): JsonObject | null {
  const { engineParams } = result ?? {}
  const carried = isRecord(engineParams) ? engineParams[ENVELOPE] : undefined
  if (!isRecord(carried) || !isRecord(carried['params'])) return null
  const at = carried['epochMs']
  // The clocks of two machines differ; a clock that is ahead is accepted.
  if (typeof at === 'number' && epochMs - at > USABLE_MS) return null
  return carried['params']
}

/**
 * For a server that pushes KV (`NixlPushConnector`): the part of its parameters that names the server and not the
 * request. It allows both legs to run at the same time: decode tells prefill where its blocks are, and prefill
 * writes into them.
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

/** The parameters for a decode leg while its prefill leg is running; the request's id connects the two. */
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

/** The id of the prefill leg; undefined: it does not matter. */
export function requestIdOfPrefill(result: PrefillResult | undefined): string | undefined {
  const { engineParams } = result ?? {}
  const carried = isRecord(engineParams) ? engineParams[ENVELOPE] : undefined
  const id = isRecord(carried) ? carried['requestId'] : undefined
  return typeof id === 'string' ? id : undefined
}

/**
 * A list of ids, or in newer versions one list for each cache group. Anything else counts as no blocks: with it a decode
 * server dies.
 */
function hasBlocks(blocks: unknown): boolean {
  if (!Array.isArray(blocks)) return false
  const ids = (blocks as unknown[]).flat() as unknown[]
  return ids.length > 0 && ids.every(isU32)
}

/** Without recursion, because a server may nest them deeper than the stack. */
function isExact(params: unknown): boolean {
  let level: readonly unknown[] = [params]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > JSON_DEPTH_MAX || !level.every(isExactNumber)) return false
    level = level.flatMap(valuesIn)
  }
  return true
}

function isExactNumber(value: unknown): boolean {
  return typeof value !== 'number' || !Number.isInteger(value) || Number.isSafeInteger(value)
}

function valuesIn(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value as unknown[]
  return isRecord(value) ? Object.values(value) : []
}
