/**
 * Messages by which a worker reports its state: KV_EVENTS, LOAD; and KV_SNAPSHOT, by which a frontend requests the
 * full state after it has missed a batch. All integers are little-endian.
 *
 *   KV_EVENTS    [sequence u64][dp rank u32][count u32] then per event
 *                [kind u8][tier u8][has parent u8][0 u8][parent lo,hi u32]? [hashes u32][local u32][lo,hi u32 …]
 *   KV_SNAPSHOT  empty
 *   LOAD         [dp rank][active blocks][total blocks][running][queued][prefill tokens], u32 each
 */
import type { KvEvent, KvEventBatch, KvTier, LoadReport } from '../kv/index.ts'
import type { FrameWriter } from './frame-writer.ts'
import { PayloadReader } from './payload-reader.ts'
import { protocolError } from './protocol-error.ts'
import { TAG } from './tag.ts'

const KINDS = ['stored', 'removed', 'cleared'] as const
const TIERS: readonly KvTier[] = ['device', 'host', 'disk']
const EVENT_BYTES_MIN = 4
const NO_HASHES = new Uint32Array(0)

export function encodeKvEvents(writer: FrameWriter, batch: KvEventBatch): void {
  writer.begin(TAG.KV_EVENTS).u64(batch.sequence).u32(batch.dpRank).u32(batch.events.length)
  for (const event of batch.events) encodeKvEvent(writer, event)
  writer.end()
}

function encodeKvEvent(writer: FrameWriter, event: KvEvent): void {
  writer.u8(KINDS.indexOf(event.kind))
  if (event.kind === 'cleared') {
    writer.u8(0).u16(0)
    return
  }
  const parent = event.kind === 'stored' ? event.parent : null
  const localHashes = event.kind === 'stored' ? event.localHashes : NO_HASHES
  writer
    .u8(TIERS.indexOf(event.tier))
    .u8(parent === null ? 0 : 1)
    .u8(0)
  if (parent !== null) writer.u32(parent[0]).u32(parent[1])
  writer.u32(event.hashes.length / 2).u32(localHashes.length / 2)
  writer.u32s(event.hashes).u32s(localHashes)
}

export function decodeKvEvents(bytes: Uint8Array, start: number, end: number): KvEventBatch {
  const reader = new PayloadReader(bytes, start, end)
  const sequence = reader.u64()
  const dpRank = reader.u32()
  const count = reader.u32()
  if (count > reader.remaining / EVENT_BYTES_MIN) {
    throw protocolError('message.truncated', `${count} events do not fit the frame`)
  }
  const events: KvEvent[] = []
  for (let i = 0; i < count; i++) events.push(decodeKvEvent(reader))
  reader.expectEnd('KV_EVENTS')
  return { sequence, dpRank, events }
}

function decodeKvEvent(reader: PayloadReader): KvEvent {
  const kind = KINDS[reader.u8()]
  const tier = TIERS[reader.u8()]
  const hasParent = reader.u8() === 1
  reader.u8()
  if (kind === undefined || tier === undefined) {
    throw protocolError('message.malformed', 'a KV event of unknown kind or tier')
  }
  if (kind === 'cleared') return { kind }
  const parent = hasParent ? ([reader.u32(), reader.u32()] as const) : null
  const hashCount = reader.u32()
  const localCount = reader.u32()
  const hashes = reader.u32s(hashCount * 2)
  const localHashes = reader.u32s(localCount * 2)
  if (kind === 'removed') return { kind, hashes, tier }
  return { kind, parent, hashes, localHashes, tier }
}

export function encodeLoad(writer: FrameWriter, report: LoadReport): void {
  writer.begin(TAG.LOAD).u32(report.dpRank).u32(report.activeBlocks).u32(report.totalBlocks)
  writer.u32(report.runningRequests).u32(report.queuedRequests)
  writer.u32(report.prefillTokensInFlight).end()
}

export function decodeLoad(bytes: Uint8Array, start: number, end: number): LoadReport {
  const reader = new PayloadReader(bytes, start, end)
  const report = {
    dpRank: reader.u32(),
    activeBlocks: reader.u32(),
    totalBlocks: reader.u32(),
    runningRequests: reader.u32(),
    queuedRequests: reader.u32(),
    prefillTokensInFlight: reader.u32(),
  }
  // A longer LOAD comes from a newer peer; additional fields are ignored.
  return report
}
