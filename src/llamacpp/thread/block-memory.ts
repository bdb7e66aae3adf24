/** Blocks in the memory of the thread's owner, as the thread sees them. */
import type { ParsedState, StateBlock } from '../state/state-codec.ts'
import { assembleState, cutBlock } from '../state/state-codec.ts'
import type { KvLayout } from '../state/state-layout.ts'
import type { BlockMemory } from './thread-messages.ts'
import { ffi } from '../native/ffi.ts'

/** The address of memory, which stays in place as long as it is referenced. */
export function addressOf(bytes: Uint8Array): bigint {
  return BigInt.asUintN(64, ffi.address(bytes))
}

/** A state of these blocks, in memory of `allocate`. */
export function stateOfBlocks(
  memory: BlockMemory,
  layout: KvLayout,
  streamCount: number,
  allocate: (byteLength: number) => Uint8Array,
): Uint8Array {
  const blocks: StateBlock[] = []
  for (const [i, address] of memory.addresses.entries()) {
    const tokenCount = memory.ranges[2 * i + 1] ?? 0
    blocks.push({ tokenCount, bytes: viewOf(address, tokenCount * layout.bytesPerToken) })
  }
  return assembleState(layout, blocks, streamCount, allocate)
}

/** Writes those blocks that lie within a state. */
export function writeBlocks(memory: BlockMemory, state: ParsedState): void {
  const { first, tokenCount, layout } = state
  for (const [i, address] of memory.addresses.entries()) {
    const from = (memory.ranges[2 * i] ?? 0) - first
    const count = memory.ranges[2 * i + 1] ?? 0
    if (from < 0 || from + count > tokenCount) continue
    cutBlock(state, from, from + count, viewOf(address, count * layout.bytesPerToken))
  }
}

export function tokensIn(memory: BlockMemory): number {
  let tokens = 0
  for (let i = 1; i < memory.ranges.length; i += 2) tokens += memory.ranges[i] ?? 0
  return tokens
}

function viewOf(address: bigint, byteLength: number): Uint8Array {
  return new Uint8Array(ffi.view(address, byteLength))
}
