/** Engines whose reports follow the contract in an unusual way pass; what looks similar and is wrong is reported. */
import { describe, expect, it } from 'vitest'
import type { KvEvent, KvTier } from '../../kv/index.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'
import { block, events, life, noLocals } from '../../../test/engine/sound-engine.ts'

const other = Uint32Array.of(3, 4)
const both = Uint32Array.of(1, 2, 3, 4)
const stored = (hashes = block, tier: KvTier = 'device'): KvEvent => ({
  kind: 'stored',
  parent: null,
  hashes,
  localHashes: noLocals,
  tier,
})
const removed = (hashes = block, tier: KvTier = 'device'): KvEvent => ({
  kind: 'removed',
  hashes,
  tier,
})
const child: KvEvent = {
  kind: 'stored',
  parent: [1, 2],
  hashes: other,
  localHashes: noLocals,
  tier: 'device',
}

describe('runConformance - copies of KV blocks', () => {
  it.each<[string, KvEvent[]]>([
    ['stored twice and removed twice', [stored(), stored(), removed(), removed()]],
    ['stored twice and removed once', [stored(), stored(), removed()]],
    ['the parent of another when one copy is left', [stored(), stored(), removed(), child]],
    ['in two tiers', [stored(), stored(block, 'host'), removed(), removed(block, 'host')]],
    ['stored again after its removal', [stored(), removed(), stored(), removed()]],
    ['twice in chains', [stored(both), stored(), removed(both), removed()]],
    ['cleared and stored again', [stored(), stored(), { kind: 'cleared' }, stored(), removed()]],
  ])('%s - pass', async (_name, list) => {
    expect(await rulesBrokenBy(events(...list))).toEqual([])
    const inCalls = life({
      observe: (observer) => {
        for (const event of list) observer.kvEvents(0, [event])
      },
    })
    expect(await rulesBrokenBy(inCalls)).toEqual([])
  })

  it.each<[string, string, KvEvent[]]>([
    [
      'removed more often than stored',
      'kv-event-removed-unknown',
      [stored(), removed(), removed()],
    ],
    [
      'of which the cleared copies are removed',
      'kv-event-removed-unknown',
      [stored(), stored(), { kind: 'cleared' }, removed()],
    ],
    [
      'removed in another tier',
      'kv-event-removed-unknown',
      [stored(), stored(), removed(block, 'host')],
    ],
    [
      'the parent of another without a copy',
      'kv-event-parent-unknown',
      [stored(), stored(), removed(), removed(), child],
    ],
  ])('%s - %s', async (_name, rule, list) => {
    expect(await rulesBrokenBy(events(...list))).toEqual([rule])
  })
})
