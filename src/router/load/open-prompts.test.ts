import { describe, expect, it } from 'vitest'
import { OpenPrompts } from './open-prompts.ts'

/** Hashes of blocks with these contents; as in a chain, equal numbers mean equal prefixes. */
const hashes = (...blocks: number[]): Uint32Array =>
  Uint32Array.from(blocks.flatMap((block) => [block, 7 * block]))

const prompt = (slot: number, sequence: Uint32Array, firstNew: number, isHeld = false) => ({
  slot,
  sequence: sequence as Uint32Array | null,
  firstNew,
  isHeld,
  isLong: false,
})

function slotsOf(open: OpenPrompts, ...blocks: number[]): number[] {
  const slots: number[] = []
  open.find(hashes(...blocks), blocks.length, ({ slot }) => slots.push(slot))
  return slots
}

describe('OpenPrompts', () => {
  it('prompts with a part of the prefix - are found while they are computed', () => {
    const open = new OpenPrompts()
    const [first, second] = [prompt(5, hashes(1, 2, 3), 1), prompt(6, hashes(1, 2, 3, 4), 3)]
    open.add(first)
    open.add(second)
    expect(slotsOf(open, 1, 2, 30)).toEqual([5])
    expect(slotsOf(open, 1, 2, 3, 4, 50)).toEqual([5, 6])
    // Only what was cached before is the same.
    expect(slotsOf(open, 1, 20)).toEqual([])
    open.remove(first)
    open.remove(first)
    expect(slotsOf(open, 1, 2, 3, 4)).toEqual([6])
    expect(first.sequence).toBe(null)
    open.remove(second)
    expect(open.isEmpty).toBe(true)
  })

  it('equal low words or another place in the prompt - are not the same block', () => {
    const open = new OpenPrompts()
    open.add(prompt(5, Uint32Array.of(1, 99), 0))
    open.add(prompt(6, hashes(8, 1), 1))
    expect(slotsOf(open, 1)).toEqual([])
  })

  it('a prompt that waits for the next step - until a prompt of its rank has its first token', () => {
    const open = new OpenPrompts()
    const [first, held] = [prompt(0, hashes(9), 0), prompt(0, hashes(1, 2), 0, true)]
    const elsewhere = prompt(1, hashes(1, 2), 0, true)
    for (const each of [first, held, elsewhere]) open.add(each)
    open.remove(first)
    expect([held.isHeld, elsewhere.isHeld]).toEqual([false, true])
  })

  it('a thousand ranks that compute the same prefix - the newest ones are found', () => {
    const open = new OpenPrompts()
    for (let slot = 0; slot < 1000; slot++) open.add(prompt(slot, hashes(1, 2), 0))
    const slots = slotsOf(open, 1, 2)
    expect([slots.length, slots[0]]).toEqual([256, 999])
  })

  it('no complete block of its own - is not found', () => {
    const open = new OpenPrompts()
    const cached = prompt(0, hashes(1, 2), 2)
    open.add(cached)
    expect(open.isEmpty).toBe(true)
    open.remove(cached)
  })

  it('a rank that left - is forgotten', () => {
    const open = new OpenPrompts()
    const gone = prompt(0, hashes(1, 2), 0)
    open.add(gone)
    open.leave(0)
    expect(open.isEmpty).toBe(true)
    open.remove(gone)
  })
})
