/**
 * What ranks are believed to hold of the prompts that were sent to them, by this frontend or by another.
 */
import type { WorkerId } from '../../base/index.ts'
import type { BlockHashes } from '../../kv/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { OverlapIndex } from '../load/overlap-index.ts'
import type { RankTable } from '../load/rank-table.ts'
import { isSilent } from '../load/self-check.ts'
import type { Selection } from './selection.ts'

interface PromptBeliefsOptions {
  readonly config: RouterConfig
  readonly table: RankTable
  readonly index: OverlapIndex
  /** A prompt goes to a rank that does not tell what it holds: other frontends are to know. */
  readonly onRouted: ((to: Selection, sequence: Uint32Array) => void) | undefined
}

export class PromptBeliefs {
  readonly #options: PromptBeliefsOptions

  constructor(options: PromptBeliefsOptions) {
    this.#options = options
  }

  /** The rank has, or will have, the prompt. */
  placed(selection: Selection, hashes: BlockHashes, nowMs: number): void {
    const { config, table, index, onRouted } = this.#options
    const { slot, isEstimated } = selection
    const row = table.row(slot)
    // What the engine will announce of an estimated prompt has other hashes.
    const hasEvents = config.useKvEvents && !isEstimated && !isSilent(row)
    const capacity = (table.totalBlocks[slot] as number) || null
    index.routed({ slot, hasEvents, capacity }, hashes, nowMs)
    if (hashes.sequence.length === 0) return
    if (!hasEvents) onRouted?.(selection, hashes.sequence)
    row.promptsPlaced++
  }

  /** Another frontend has sent a prompt to a worker that does not tell what it holds. False: it is not taken. */
  learned(workerId: WorkerId, dpRank: number, sequence: Uint32Array, nowMs: number): boolean {
    const { config, table, index } = this.#options
    const slot = table.slotOf(workerId, dpRank)
    if (slot === -1 || (config.useKvEvents && !isSilent(table.row(slot)))) return false
    const capacity = (table.totalBlocks[slot] as number) || null
    const hashes = { local: sequence, sequence }
    index.routed({ slot, hasEvents: false, capacity }, hashes, nowMs)
    return true
  }
}
