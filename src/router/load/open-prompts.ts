/**
 * The prompts that the ranks of a pool compute now, to know which cached blocks are only expected: a prompt that is
 * computed in the same engine step as the first one with its prefix computes the prefix again, because an engine finds
 * only blocks of earlier steps.
 *
 * They are found by the first block that they compute, so that a decision asks for each block of its prompt and not for
 * each rank. Bounded by the requests in flight, and a decision by `FOUND_MAX`.
 */
import type { Booking } from './active-sequences.ts'

type OpenPrompt = Pick<Booking, 'slot' | 'sequence' | 'firstNew' | 'isHeld' | 'isLong'>

/** Counters of open prompts by the low bits of that block's hash: nearly all blocks of a prompt are nobody's first. */
const COUNTERS = 1 << 16
/** Newest first, no more of them are looked at in one decision: a thousand ranks may compute the same prefix. */
const FOUND_MAX = 256

export class OpenPrompts {
  readonly #byBlock = new Map<number, OpenPrompt[]>()
  readonly #bySlot: (OpenPrompt[] | undefined)[] = []
  #counts = new Uint16Array(0)

  add(prompt: OpenPrompt): void {
    const { slot, sequence, firstNew } = prompt
    const low = sequence?.[2 * firstNew]
    // Without a complete block of its own there is nothing that others could compute again.
    if (low === undefined) return
    if (this.#counts.length === 0) this.#counts = new Uint16Array(COUNTERS)
    this.#count(low, 1)
    const alike = this.#byBlock.get(low)
    if (alike === undefined) this.#byBlock.set(low, [prompt])
    else alike.push(prompt)
    const here = (this.#bySlot[slot] ??= [])
    here.push(prompt)
  }

  /** Its first token has arrived, or it has ended: the prompts that waited for the next step are computed now. */
  remove(prompt: OpenPrompt): void {
    const here = this.#bySlot[prompt.slot]
    if (here === undefined) return
    for (const other of here) other.isHeld = false
    if (!take(here, prompt)) return
    this.#forget(prompt)
  }

  /** The rank has left. */
  leave(slot: number): void {
    for (const prompt of this.#bySlot[slot] ?? []) this.#forget(prompt)
    this.#bySlot[slot] = undefined
  }

  get isEmpty(): boolean {
    return this.#byBlock.size === 0
  }

  /** Calls `found` for each open prompt whose first computed block is one of the first `blocks` of this prompt. */
  find(sequence: Uint32Array, blocks: number, found: (prompt: OpenPrompt) => void): void {
    if (this.#byBlock.size === 0) return
    const counts = this.#counts
    const end = Math.min(2 * blocks, sequence.length)
    let left = FOUND_MAX
    for (let at = 0; at < end; at += 2) {
      const low = sequence[at] as number
      if (counts[low & (COUNTERS - 1)] === 0) continue
      const alike = this.#byBlock.get(low) ?? []
      for (let i = alike.length - 1; i >= 0 && left > 0; i--, left--) {
        const prompt = alike[i] as OpenPrompt
        const isSame = prompt.sequence?.[at + 1] === sequence[at + 1]
        if (isSame && 2 * prompt.firstNew === at) found(prompt)
      }
    }
  }

  #forget(prompt: OpenPrompt): void {
    const low = prompt.sequence?.[2 * prompt.firstNew] as number
    prompt.sequence = null
    const alike = this.#byBlock.get(low) ?? []
    take(alike, prompt)
    if (alike.length === 0) this.#byBlock.delete(low)
    this.#count(low, -1)
  }

  #count(low: number, change: number): void {
    const at = low & (COUNTERS - 1)
    this.#counts[at] = (this.#counts[at] as number) + change
  }
}

function take(list: OpenPrompt[], prompt: OpenPrompt): boolean {
  const at = list.indexOf(prompt)
  if (at === -1) return false
  list.splice(at, 1)
  return true
}
