/**
 * KV events told to others than Baton's routers, in the form that vLLM publishes: a batch is
 * `[seconds, events, dp rank]`, an event a list that begins with its name.
 *
 * Owns: that form, as plain values. Does not own: MessagePack, numbers of batches and sockets (`host` has a
 * `SimKvBroadcast` over ZeroMQ).
 */
import { hashesToBigints, hashToBigint } from '../../kv/index.ts'
import type { KvTier } from '../../kv/index.ts'
import type { BlockContent, SimKvEvent } from '../blocks/block-content.ts'

export interface KvBroadcastPorts {
  /** Of rank 0; the next ranks have the next ports. 0: any free ones. */
  readonly events: number
  /** Where missed batches are asked for; null: nowhere. */
  readonly replay: number | null
  readonly ranks: number
}

/** One address per rank. */
export interface KvBroadcastAddresses {
  readonly events: readonly string[]
  readonly replay: readonly string[]
}

export interface SimKvBroadcast {
  /** Once, before `publish`. */
  listen(ports: KvBroadcastPorts): Promise<KvBroadcastAddresses>
  /** The batches of a rank are numbered from 0 in the order of the calls. Does not wait. */
  publish(dpRank: number, batch: readonly unknown[]): void
  /** Idempotent; also after a failed `listen`. */
  close(): Promise<void>
}

const MEDIA: Readonly<Record<KvTier, string>> = {
  device: 'GPU',
  host: 'CPU_PINNED',
  disk: 'DISK',
}

/** `array`: as vLLM up to 0.22; `map`: as it does since, with the names of the fields. */
export type KvEventsForm = 'array' | 'map'

export function kvBroadcastBatch(
  events: readonly SimKvEvent[],
  at: { readonly epochMs: number; readonly dpRank: number; readonly blockTokens: number },
  form: KvEventsForm = 'array',
): readonly unknown[] {
  const told = events.map((event) => eventOf(event, at.blockTokens))
  return [at.epochMs / 1000, form === 'map' ? told.map(mapOf) : told, at.dpRank]
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
  // One group, which holds the whole prefix.
  return { ...fields, group_idx: 0, kv_cache_spec_kind: 'full_attention' }
}

function eventOf(event: SimKvEvent, blockTokens: number): readonly unknown[] {
  if (event.kind === 'cleared') return ['AllBlocksCleared']
  const hashes = hashesToBigints(event.hashes)
  const medium = MEDIA[event.tier]
  if (event.kind === 'removed') return ['BlockRemoved', hashes, medium]
  const { parent, contents = [] } = event
  // The id of an adapter is what vLLM no longer uses: its name counts.
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

/** What a block's hash has beside tokens; the salt only in the first of a prompt, from which all others descend. */
function extraKeysOf(
  { loraName, cacheSalt }: BlockContent,
  isRoot: boolean,
): readonly string[] | null {
  const keys = [loraName, isRoot ? cacheSalt : undefined].filter((key) => key !== undefined)
  return keys.length === 0 ? null : keys
}
