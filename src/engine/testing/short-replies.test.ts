/** Engines whose whole reply is one item or two: the kit cannot stop them in the middle, and must not accuse them. */
import { describe, expect, it } from 'vitest'
import { finishChunk } from '../../request/index.ts'
import type { Chunk } from '../../request/index.ts'
import { rulesBrokenBy } from '../../../test/engine/rules-broken.ts'
import { items } from '../../../test/engine/sound-engine.ts'
import type { Broken } from '../../../test/engine/sound-engine.ts'

/** Answers with these pieces, and ends with the last of them. */
const replying = (pieces: readonly Chunk[]): Broken =>
  items(async function* (sound, { tokenIds, output }, context, engine) {
    if (tokenIds.length === 0 || output.logprobs !== undefined) return yield* sound()
    for (const [at, piece] of pieces.entries()) {
      await engine.pause()
      if (context.isStopped) return yield finishChunk('cancelled')
      if (!engine.isRunning) return yield* sound()
      yield at === pieces.length - 1 ? { ...piece, finish: 'stop' } : piece
    }
  })
const text = (of: string): Chunk => ({ tokenIds: [], text: of })

describe('runConformance - short replies', () => {
  it.each<[string, Broken]>([
    ['one piece of text', replying([text('Hello world')])],
    ['two pieces of text', replying([text('Hello'), text(' world')])],
    ['three pieces of text', replying([text('Hello'), text(' world'), text('!')])],
    ['one item with all tokens', replying([{ tokenIds: [1, 2, 3, 4] }])],
    ['two items with all tokens', replying([{ tokenIds: [1, 2] }, { tokenIds: [3, 4] }])],
    ['the end at once, without a token', replying([{ tokenIds: [], stopReason: 7 }])],
  ])('%s - passes', async (_name, engine) => {
    expect(await rulesBrokenBy(engine)).toEqual([])
  })

  it.each([
    ['was requested before the stop of others', 1],
    ['came before the stop of others', 7],
  ])('one item, which %s - passes', async (_name, longStream) => {
    const uneven = items(async function* (sound, { output, tokenIds }, context, engine) {
      const isLong = engine.live === longStream || output.logprobs !== undefined
      if (isLong || tokenIds.length === 0 || !engine.isRunning) return yield* sound()
      if (context.isStopped) return yield finishChunk('cancelled')
      // Everything in one step, which a stop does not interrupt.
      await engine.pause()
      yield { tokenIds: [1, 2, 3], finish: 'stop' }
    })
    expect(await rulesBrokenBy(uneven)).toEqual([])
  })

  it('one item at a stop that is ignored - is reported', async () => {
    const deaf = items(async function* (sound, { output, tokenIds }, _context, engine) {
      const isPlain = tokenIds.length > 0 && output.logprobs === undefined
      if (!engine.isRunning || !isPlain) return yield* sound()
      await engine.pause()
      yield { tokenIds: [1], finish: 'stop' }
    })
    expect(await rulesBrokenBy(deaf)).toEqual(['tokens-after-cancel'])
  })
})
