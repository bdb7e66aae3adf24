import { describe, expect, it } from 'vitest'
import { KvGatherer } from './kv-gatherer.ts'

const PIECE = 64 * 1024

function feed(length: number, limit: number) {
  const wholes: Uint8Array[] = []
  let heldMost = 0
  const gatherer = new KvGatherer({
    wants: (announced) => announced <= limit,
    onWhole: (payload) => wholes.push(payload),
  })
  for (let at = 0; at < length; at += PIECE) {
    const piece = new Uint8Array(Math.min(PIECE, length - at)).fill(at / PIECE)
    gatherer.onPart(length, at, piece)
    heldMost = Math.max(heldMost, gatherer.heldBytes)
  }
  return { wholes, heldMost, gatherer }
}

describe('KvGatherer', () => {
  it.each([1, PIECE - 1, PIECE, 5 * PIECE + 3])('%i bytes - are received unchanged', (length) => {
    const { wholes } = feed(length, length)
    expect(wholes.map((whole) => whole.length)).toEqual([length])
    expect(wholes[0]?.[length - 1]).toBe(Math.floor((length - 1) / PIECE))
  })

  it('above the limit - nothing is held while it arrives, and the next one is complete', () => {
    const { wholes, heldMost, gatherer } = feed(300 * 1024 * 1024, 1_000)
    expect([wholes.length, heldMost]).toEqual([0, 0])
    gatherer.onPart(3, 0, Uint8Array.of(1, 2, 3))
    expect(wholes).toEqual([Uint8Array.of(1, 2, 3)])
  })

  it('a length alone - takes no memory', () => {
    const gatherer = new KvGatherer({ wants: () => true, onWhole: () => undefined })
    gatherer.onPart(2 ** 31 - 1, 0, new Uint8Array(10))
    expect(gatherer.heldBytes).toBeLessThanOrEqual(PIECE)
  })
})
