/**
 * Parses a batch of KV events of vLLM or SGLang, in any of the encodings in use.
 *
 * Owns: arrays (up to vLLM 0.22) and maps, for the batch as for each event; hashes as signed or unsigned integers or
 * as bytes. What cannot be parsed is named, not guessed: if it is unknown which blocks were removed, all of them are.
 */
import { isRecord, isU32 } from '../../base/index.ts'

export type ForeignEvent =
  | {
      readonly kind: 'stored'
      readonly hashes: readonly bigint[]
      readonly parent: bigint | null
      readonly tokenIds: readonly number[]
      readonly blockTokens: number
      readonly loraName: string | null
      readonly medium: string
      /** Per block the parts of its hash besides tokens: adapter, images, salt. */
      readonly extraKeys: readonly unknown[]
      /** A field of SGLang. */
      readonly salt: string | null
      readonly group: number | null
      readonly groupKind: string | null
    }
  | {
      readonly kind: 'removed'
      readonly hashes: readonly bigint[]
      readonly medium: string
      readonly group: number | null
    }
  | { readonly kind: 'cleared' }

export interface ForeignBatch {
  readonly dpRank: number | null
  readonly events: readonly ForeignEvent[]
  /** Names of the events that could not be parsed. */
  readonly unreadable: readonly string[]
}

/** Names of the fields in the order of the array form. */
const STORED_FIELDS = [
  'type',
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
  'group_idx',
  'kv_cache_spec_kind',
]
const REMOVED_FIELDS = ['type', 'block_hashes', 'medium', 'group_idx']

/** What a payload that is no batch means: it may have removed any block. */
export const NO_BATCH: ForeignBatch = {
  dpRank: null,
  events: [{ kind: 'cleared' }],
  unreadable: ['a whole batch'],
}

/** Null: the payload is not a batch. `decoded`: the decoded MessagePack value, with large integers as bigint. */
export function readForeignBatch(decoded: unknown): ForeignBatch | null {
  const [events, rank] = Array.isArray(decoded)
    ? [decoded[1] as unknown, decoded[2] as unknown]
    : isRecord(decoded)
      ? [decoded['events'], decoded['data_parallel_rank'] ?? decoded['dp_rank']]
      : [null, null]
  if (!Array.isArray(events)) return null
  const unreadable: string[] = []
  const known = (events as unknown[]).flatMap((value): ForeignEvent[] => {
    const event = eventOf(value)
    if (event !== null) return [event]
    const type = fieldsOf(value)?.['type']
    unreadable.push(nameOf(type))
    return type === 'BlockRemoved' ? [{ kind: 'cleared' }] : []
  })
  return { dpRank: typeof rank === 'number' ? rank : null, events: known, unreadable }
}

function nameOf(type: unknown): string {
  return typeof type === 'string' && /^\w{1,40}$/.test(type) ? type : 'an event without a name'
}

function eventOf(value: unknown): ForeignEvent | null {
  const fields = fieldsOf(value)
  switch (fields?.['type']) {
    case 'BlockStored':
      return storedOf(fields)
    case 'BlockRemoved': {
      const hashes = hashesOf(fields['block_hashes'])
      if (hashes === null) return null
      return { kind: 'removed', hashes, medium: textOf(fields['medium']), group: groupOf(fields) }
    }
    case 'AllBlocksCleared':
      return { kind: 'cleared' }
    default:
      return null
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> | null {
  if (!Array.isArray(value)) return isRecord(value) ? value : null
  const list = value as unknown[]
  const names = list[0] === 'BlockRemoved' ? REMOVED_FIELDS : STORED_FIELDS
  return Object.fromEntries(names.map((name, i) => [name, list[i]]))
}

function storedOf(fields: Readonly<Record<string, unknown>>): ForeignEvent | null {
  const hashes = hashesOf(fields['block_hashes'])
  const parent = fields['parent_block_hash'] ?? null
  const parentHash = parent === null ? null : hashOf(parent)
  const tokens = (fields['token_ids'] ?? []) as unknown
  const blockTokens = fields['block_size']
  if (hashes === null || (parent !== null && parentHash === null)) return null
  if (!Array.isArray(tokens) || !tokens.every(isU32)) return null
  if (typeof blockTokens !== 'number' || blockTokens < 1) return null
  const { lora_id: loraId, lora_name: loraName, cache_salt: salt } = fields
  return {
    kind: 'stored',
    hashes,
    parent: parentHash,
    tokenIds: tokens,
    blockTokens,
    loraName:
      typeof loraName === 'string'
        ? loraName
        : typeof loraId === 'number'
          ? `lora-${loraId}`
          : null,
    medium: textOf(fields['medium']),
    extraKeys: Array.isArray(fields['extra_keys']) ? (fields['extra_keys'] as unknown[]) : [],
    salt: typeof salt === 'string' && salt !== '' ? salt : null,
    group: groupOf(fields),
    groupKind:
      typeof fields['kv_cache_spec_kind'] === 'string' ? fields['kv_cache_spec_kind'] : null,
  }
}

function groupOf(fields: Readonly<Record<string, unknown>>): number | null {
  const group = fields['group_idx']
  return typeof group === 'number' ? group : null
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value.toLowerCase() : ''
}

function hashesOf(value: unknown): readonly bigint[] | null {
  if (!Array.isArray(value)) return null
  const hashes = (value as unknown[]).map(hashOf)
  return hashes.every((hash) => hash !== null) ? hashes : null
}

/** As an unsigned number of 64 bits; of a longer digest its last 8 bytes. */
function hashOf(value: unknown): bigint | null {
  if (typeof value === 'bigint') return BigInt.asUintN(64, value)
  if (typeof value === 'number') {
    return Number.isSafeInteger(value) ? BigInt.asUintN(64, BigInt(value)) : null
  }
  if (!(value instanceof Uint8Array) || value.length === 0) return null
  let hash = 0n
  for (const byte of value.subarray(-8)) hash = (hash << 8n) | BigInt(byte)
  return hash
}
