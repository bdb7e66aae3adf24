import { describe, expect, it } from 'vitest'
import { buildModel, tokensFrom } from '../../../test/router/model-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'

/** Milliseconds per token of the decode workers. */
const STEP_MS: Readonly<Record<string, number>> = { '2': 5, '3': 100 }
const DECODE = { engine: { maxNumSeqs: 2 } }

describe('PrefillRouter: decode workers whose speed is known', () => {
  it('a place in the full batch of a fast one costs less than a free place at a slow one', () => {
    const { plane, clock, send } = buildModel(
      [
        card(1, 'prefill', { engine: { maxNumSeqs: 100 } }),
        card(2, 'decode', DECODE),
        card(3, 'decode', DECODE),
      ],
      { engineQueue: 4 },
    )
    let sent = 0
    /** Computes the next prompt; returns its decode leg. */
    const next = () => {
      send({}, tokensFrom(1000 * sent++, 16))
      clock.advance(5)
      plane.calls.at(-1)?.prefilled()
      return plane.call(plane.calls.length - 1)
    }
    for (let i = 0; i < 60; i++) {
      const decode = next()
      for (let token = 0; token < 40; token++) {
        clock.advance(STEP_MS[decode.workerId] as number)
        decode.token(token)
      }
      decode.finish()
    }
    expect(Array.from({ length: 4 }, () => next().workerId)).toEqual(['2', '2', '2', '2'])
  })
})
