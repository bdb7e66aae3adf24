import { describe, expect, it } from 'vitest'
import { hashesOf, stored } from '../../../test/kv/chain-events.ts'
import { PrefixMatches } from '../prefix/prefix-matches.ts'
import { checkRuns } from '../runs/run-invariants.ts'
import { EventPrefixIndex } from './event-prefix-index.ts'

describe('EventPrefixIndex', () => {
  it.each([40, 20_000])(
    'short chains - rows of %i chains of a holder that has left go with the last block of another one',
    (chains) => {
      const index = new EventPrefixIndex()
      for (let chain = 0; chain < chains; chain++) {
        index.apply(0, stored(hashesOf(10 * chain, 3), 0, 3))
      }
      const last = hashesOf(10 * chains, 50)
      index.apply(1, stored(last, 0, 3))
      index.apply(1, stored(last, 3, 50))
      index.removeHolder(0)
      index.apply(1, { kind: 'removed', hashes: last.subarray(6), tier: 'device' })
      expect(index.stats().blocks, 'rows of the holder that has left').toBeGreaterThan(3)
      index.apply(1, { kind: 'removed', hashes: last.subarray(0, 6), tier: 'device' })
      expect(index.stats()).toMatchObject({ entries: 0, blocks: 0 })
      checkRuns(index.device)
    },
  )

  it('short chains - a run after loose blocks stays when their last holder leaves', () => {
    const index = new EventPrefixIndex()
    const hashes = hashesOf(1, 50)
    for (const holder of [0, 1]) index.apply(holder, stored(hashes, 0, 3))
    index.apply(1, stored(hashes, 3, 50))
    index.apply(1, { kind: 'removed', hashes: hashes.subarray(0, 6), tier: 'device' })
    index.removeHolder(0)
    expect(index.stats()).toMatchObject({ entries: 47, blocks: 47 })
    checkRuns(index.device)
    index.apply(1, stored(hashes, 0, 50))
    expect(index.stats()).toMatchObject({ entries: 50, blocks: 50 })
    checkRuns(index.device)
  })

  it('short events - a queried prompt becomes one run however its blocks arrive; another stays loose', () => {
    const index = new EventPrefixIndex()
    const matches = new PrefixMatches(2)
    const [asked, unasked] = [hashesOf(1, 40), hashesOf(5000, 20)]
    index.find(asked, matches)
    for (let block = 0; block < 40; block++) index.apply(0, stored(asked, block, block + 1))
    for (let block = 0; block < 20; block++) index.apply(0, stored(unasked, block, block + 1))
    expect(index.device.parts.blocks.runs.live).toBe(1)
    expect(index.device.parts.loose.count).toBe(20)
    checkRuns(index.device)
  })

  it('short events - a departed holder does not keep loose blocks alive that become part of a run', () => {
    const index = new EventPrefixIndex()
    const matches = new PrefixMatches(4)
    const hashes = hashesOf(1, 40)
    // Enough blocks remain that those of the departed holder are not cleaned up.
    for (let chain = 0; chain < 40; chain++) {
      index.apply(2, stored(hashesOf(20_000 + 1000 * chain, 20), 0, 20))
    }
    for (let block = 0; block < 30; block++) index.apply(0, stored(hashes, block, block + 1))
    for (let block = 0; block < 29; block++) index.apply(1, stored(hashes, block, block + 1))
    index.removeHolder(0)
    index.find(hashes, matches)
    expect([matches.device[0], matches.device[1]]).toEqual([0, 29])
    checkRuns(index.device)
  })
})
