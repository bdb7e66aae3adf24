/**
 * KV events in vLLM's format, for subscribers other than Baton's routers: a batch is `[seconds, events, dp rank]`, an
 * event a list that begins with its name.
 *
 * Owns that format as plain values. MessagePack, batch numbers and sockets are in room `host` (`SimKvBroadcast` over
 * ZeroMQ).
 */
import { hashesToBigints, hashToBigint } from '../../kv/index.ts'
import type { KvTier } from '../../kv/index.ts'
import type { BlockContent, SimKvEvent } from '../blocks/block-content.ts'

export interface KvBroadcastPorts {
  /** Port of rank 0; the following ranks use the following ports. 0: any free ports. */
  readonly events: number
  /** Port to request missed batches; null: none. */
  readonly replay: number | null
  readonly ranks: number
}

/** One address per rank. */
export interface KvBroadcastAddresses {
  readonly events: readonly string[]
  readonly replay: readonly string[]
}

export interface SimKvBroadcast {
  /** Called once, before `publish`. */
  listen(ports: KvBroadcastPorts): Promise<KvBroadcastAddresses>
  /** Batches of a rank are numbered from 0 in call order. Does not block. */
  publish(dpRank: number, batch: readonly unknown[]): void
  /** Idempotent; also after a failed `listen`. */
  close(): Promise<void>
}

const MEDIA: Readonly<Record<KvTier, string>> = {
  device: 'GPU',
  host: 'CPU_PINNED',
  disk: 'DISK',
}

/** `array`: as in vLLM up to 0.22; `map`: as in later versions, with field names. */
export type KvEventsForm = 'array' | 'map'

export function kvBroadcastBatch(
  events: readonly SimKvEvent[],
  at: { readonly epochMs: number; readonly dpRank: number; readonly blockTokens: number },
  form: KvEventsForm = 'array',
): readonly unknown[] {
  const encoded = events.map((event) => eventOf(event, at.blockTokens))
  return [at.epochMs / 1000, form === 'map' ? encoded.map(mapOf) : encoded, at.dpRank]
}

const FIELDS: Readonly<Record<string, readonly string[]>> = {
  BlockStored: [
    'type',
    'block_hashes',
    'parent_block_hash',
    'token_ids',
    'block_size',
    'lora_id',
    'medium',
    'lora_name',
    'extra_keys',
  ],
  BlockRemoved: ['type', 'block_hashes', 'medium'],
  AllBlocksCleared: ['type'],
}

function mapOf(event: readonly unknown[]): Readonly<Record<string, unknown>> {
  const names = FIELDS[event[0] as string] ?? []
  const fields = Object.fromEntries(names.map((name, i) => [name, event[i] ?? null]))
  if (event[0] !== 'BlockStored') return fields
  // A single cache group, which holds the whole prefix.
  return { ...fields, group_idx: 0, kv_cache_spec_kind: 'full_attention' }
}

function eventOf(event: SimKvEvent, blockTokens: number): readonly unknown[] {
  if (event.kind === 'cleared') return ['AllBlocksCleared']
  const hashes = hashesToBigints(event.hashes)
  const medium = MEDIA[event.tier]
  if (event.kind === 'removed') return ['BlockRemoved', hashes, medium]
  const { parent, contents = [] } = event
  // vLLM no longer uses the numeric id of an adapter; its name is sent.
  const loraId = null
  const loraName = contents[0]?.loraName ?? null
  const extraKeys = contents.map((content, i) => extraKeysOf(content, parent === null && i === 0))
  return [
    'BlockStored',
    hashes,
    parent === null ? null : hashToBigint(parent[0], parent[1]),
    contents.flatMap(({ tokenIds }) => [...tokenIds]),
    blockTokens,
    loraId,
    medium,
    loraName,
    ...(extraKeys.some((keys) => keys !== null) ? [extraKeys] : []),
  ]
}

/** What is hashed besides tokens; the salt only for the first block of a prompt, which all others follow. */
function extraKeysOf(
  { loraName, cacheSalt }: BlockContent,
  isRoot: boolean,
): readonly string[] | null {
  const keys = [loraName, isRoot ? cacheSalt : undefined].filter((key) => key !== undefined)
  return keys.length === 0 ? null : keys
}
