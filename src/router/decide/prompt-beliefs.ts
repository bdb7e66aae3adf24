/** Estimated cache contents: prompts that this or another frontend has sent to a rank are assumed to be cached there. */
import type { WorkerId } from '../../base/index.ts'
import type { RouterConfig } from '../configuration/router-config.ts'
import type { BlockUnit } from '../load/block-unit.ts'
import type { OverlapIndex } from '../load/overlap-index.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import { isSilent } from '../load/self-check.ts'
import type { Selection } from './selection.ts'

interface PromptBeliefsOptions {
  readonly config: RouterConfig
  readonly table: RankTable
  readonly index: OverlapIndex
  readonly blocks: BlockUnit
  /** Called when a prompt is sent to a rank without KV events, so that other frontends can be told. */
  readonly onRouted: ((to: Selection, sequence: Uint32Array) => void) | undefined
}

export class PromptBeliefs {
  readonly #options: PromptBeliefsOptions

  constructor(options: PromptBeliefsOptions) {
    this.#options = options
  }

  /** The request is sent to this rank, which will cache its prompt. */
  placed(selection: Selection, nowMs: number): void {
    const { config, table, index, blocks, onRouted } = this.#options
    const { slot, phase, card, hashes, promptTokens, isEstimated } = selection
    // A decode worker holds the prompt too once it has received it; only conditional disaggregation uses that.
    const keepsPrompt = phase !== 'decode' || config.conditional.enabled
    if (hashes === null || !keepsPrompt || !blocks.isKnownOf(card)) return
    const row = table.row(slot)
    // A prompt with estimated tokens has other hashes than those in the engine's KV events.
    const hasEvents = config.useKvEvents && !isEstimated && !isSilent(row)
    const capacity = (table.totalBlocks[slot] as number) || null
    index.routed({ slot, hasEvents, capacity }, hashes, nowMs)
    if (hashes.sequence.length === 0) return
    if (!hasEvents) onRouted?.(selection, hashes.sequence)
    // An engine need not compute the last token's KV before it generates: only now it certainly completes a block.
    if (promptTokens > blocks.tokens) row.promptsPlaced++
  }

  /** Another frontend sent a prompt to a worker without KV events. Returns false if the message is not used. */
  learned(workerId: WorkerId, dpRank: number, sequence: Uint32Array, nowMs: number): boolean {
    const { config, table, index } = this.#options
    const slot = table.slotOf(workerId, dpRank)
    if (slot === -1 || (config.useKvEvents && !isSilent(table.row(slot)))) return false
    const capacity = (table.totalBlocks[slot] as number) || null
    const hashes = { sequence }
    index.routed({ slot, hasEvents: false, capacity }, hashes, nowMs)
    return true
  }
}
