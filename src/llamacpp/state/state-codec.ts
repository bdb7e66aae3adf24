/**
 * Splits llama.cpp's sequence state into blocks of tokens, and assembles blocks to a state for any slot.
 *
 * A block consists of the K rows of each layer and then the V rows of each layer, for consecutive tokens. It does
 * not depend on the slot or the context that made it. llama.cpp only gets what `assembleState` wrote, and a state is
 * validated to the last byte.
 * Only plain attention caches are supported; `parseState` refuses any other layout.
 */
import { BatonError } from '../../base/index.ts'
import { copyColumns } from './copy-columns.ts'
import { StateReader } from './state-reader.ts'
import { bytesPerTokenOf } from './state-layout.ts'
import type { KvLayout, LayerRows } from './state-layout.ts'

const MAGIC = 0xaf143cd8
const LAYERS_MAX = 4096
const STREAMS_MAX = 65_536

export interface ParsedState {
  readonly bytes: Uint8Array
  readonly layout: KvLayout
  /** The position of its first token. */
  readonly first: number
  readonly tokenCount: number
  readonly keyOffsets: readonly number[]
  readonly valueOffsets: readonly number[]
}

export interface StateBlock {
  readonly bytes: Uint8Array
  readonly tokenCount: number
}

/**
 * Throws `kv.block_refused` for anything but a complete, ordered state of one sequence that starts at position
 * `first`.
 */
export function parseState(bytes: Uint8Array, first = 0): ParsedState {
  const reader = new StateReader(bytes)
  reader.expect(MAGIC, 'magic')
  // The sequence that it was read from.
  reader.skip(4)
  const streamCount = reader.u32()
  if (streamCount === 0 || streamCount > STREAMS_MAX) throw refused('stream count')
  let state: ParsedState | undefined
  for (let stream = 0; stream < streamCount; stream++) {
    const cellCount = reader.u32()
    if (cellCount === 0) continue
    if (state !== undefined) throw refused('more than one stream with cells')
    state = parseStream(reader, { first, count: cellCount }, bytes)
  }
  if (state === undefined) throw refused('no cells')
  if (reader.left !== 0) throw refused(`${reader.left} bytes too many`)
  return state
}

function parseStream(
  reader: StateReader,
  { first, count: cellCount }: { readonly first: number; readonly count: number },
  bytes: Uint8Array,
): ParsedState {
  for (let cell = 0; cell < cellCount; cell++) {
    reader.expect(first + cell, 'cell position')
    reader.expect(1, 'sequences of a cell')
    reader.skip(4)
  }
  const valuesTransposed = reader.u32() === 1
  const layerCount = reader.u32()
  if (layerCount === 0 || layerCount > LAYERS_MAX) throw refused('layer count')
  const keys: LayerRows[] = []
  const values: LayerRows[] = []
  const keyOffsets: number[] = []
  const valueOffsets: number[] = []
  for (let layer = 0; layer < layerCount; layer++) {
    keys.push(readRows(reader, false))
    keyOffsets.push(reader.skip((keys.at(-1)?.rowBytes ?? 0) * cellCount))
  }
  for (let layer = 0; layer < layerCount; layer++) {
    values.push(readRows(reader, valuesTransposed))
    valueOffsets.push(reader.skip((values.at(-1)?.rowBytes ?? 0) * cellCount))
  }
  const bytesPerToken = bytesPerTokenOf(keys, values)
  const layout: KvLayout = { valuesTransposed, keys, values, bytesPerToken }
  return { bytes, layout, first, tokenCount: cellCount, keyOffsets, valueOffsets }
}

function readRows(reader: StateReader, transposed: boolean): LayerRows {
  const type = reader.u32()
  if (!transposed) {
    const rowBytes = reader.u64()
    return { type, rowBytes, elementBytes: rowBytes, elements: 1 }
  }
  const elementBytes = reader.u32()
  const elements = reader.u32()
  return { type, rowBytes: elementBytes * elements, elementBytes, elements }
}

/** Writes the tokens [from, to), counted from the state's first one, into `block`. */
export function cutBlock(
  state: ParsedState,
  from: number,
  to: number,
  block: Uint8Array = new Uint8Array(state.layout.bytesPerToken * (to - from)),
): Uint8Array {
  const { layout, bytes, tokenCount } = state
  const count = to - from
  let at = 0
  const take = (start: number, length: number): void => {
    block.set(bytes.subarray(start, start + length), at)
    at += length
  }
  layout.keys.forEach((row, layer) => {
    take((state.keyOffsets[layer] ?? 0) + from * row.rowBytes, count * row.rowBytes)
  })
  layout.values.forEach((row, layer) => {
    const start = state.valueOffsets[layer] ?? 0
    if (!layout.valuesTransposed) {
      take(start + from * row.rowBytes, count * row.rowBytes)
      return
    }
    const { elements: columns, elementBytes } = row
    const source = { bytes, at: start + from * elementBytes, step: tokenCount }
    copyColumns(source, { bytes: block, at, step: count }, { columns, count, elementBytes })
    at += count * row.rowBytes
  })
  return block
}

/** A state of the blocks' tokens for a context with `streamCount` sequences; llama.cpp loads it into any slot. */
export function assembleState(
  layout: KvLayout,
  blocks: readonly StateBlock[],
  streamCount: number,
  allocate = (byteLength: number): Uint8Array => new Uint8Array(byteLength),
): Uint8Array {
  let tokenCount = 0
  for (const block of blocks) {
    if (block.bytes.length !== block.tokenCount * layout.bytesPerToken)
      throw refused(`a block of ${block.tokenCount} tokens has ${block.bytes.length} bytes`)
    tokenCount += block.tokenCount
  }
  const headers = 12 + 4 * streamCount + 12 * tokenCount + 8
  const layers = 12 * (layout.keys.length + layout.values.length)
  const state = allocate(headers + layers + tokenCount * layout.bytesPerToken)
  const view = new DataView(state.buffer, state.byteOffset, state.byteLength)
  let at = 0
  const u32 = (value: number): void => {
    view.setUint32(at, value, true)
    at += 4
  }
  u32(MAGIC)
  u32(0)
  u32(streamCount)
  u32(tokenCount)
  for (let position = 0; position < tokenCount; position++) {
    u32(position)
    u32(1)
    u32(0)
  }
  u32(layout.valuesTransposed ? 1 : 0)
  u32(layout.keys.length)
  const offsets = blocks.map(() => 0)
  const giveAll = (length: number): void => {
    blocks.forEach((block, index) => {
      const from = offsets[index] ?? 0
      const size = length * block.tokenCount
      state.set(block.bytes.subarray(from, from + size), at)
      offsets[index] = from + size
      at += size
    })
  }
  const giveColumns = ({ elements: columns, elementBytes, rowBytes }: LayerRows): void => {
    let first = 0
    blocks.forEach(({ bytes, tokenCount: count }, index) => {
      const from = offsets[index] ?? 0
      const target = { bytes: state, at: at + first * elementBytes, step: tokenCount }
      copyColumns({ bytes, at: from, step: count }, target, { columns, count, elementBytes })
      offsets[index] = from + count * rowBytes
      first += count
    })
    at += rowBytes * tokenCount
  }
  for (const row of layout.keys) {
    u32(row.type)
    u32(row.rowBytes)
    u32(0)
    giveAll(row.rowBytes)
  }
  for (const row of layout.values) {
    u32(row.type)
    u32(layout.valuesTransposed ? row.elementBytes : row.rowBytes)
    u32(layout.valuesTransposed ? row.elements : 0)
    if (layout.valuesTransposed) giveColumns(row)
    else giveAll(row.rowBytes)
  }
  for (let i = 1; i < streamCount; i++) u32(0)
  return state
}

function refused(what: string): BatonError {
  return new BatonError('kv.block_refused', `the KV state cannot be split into blocks: ${what}`)
}
