import { expect, it } from 'vitest'
import { enginePaceOf } from './engine-pace.ts'

const prefill = [16, 500, 2000].map((tokens) => ({ tokens, ms: 1, measuredMs: 1, fittedMs: 1 }))
const linear = (curve: readonly number[], decodeSteps?: { x: number[]; y: number[] }) => ({
  timing: {
    kind: 'linear' as const,
    prefill: curve,
    decode: [10, 0.5, 0.001] as const,
    ...(decodeSteps === undefined ? {} : { decodeSteps }),
  },
  prefill,
})

it("straight lines, with the request's time outside the engine", () => {
  expect(enginePaceOf(linear([3, 0.1, 0.00001]), { requestMs: 2, msPerToken: 0.01 })).toEqual({
    promptMs: 5,
    promptTokenMs: expect.closeTo(0.1 + 0.02 + 0.01, 9),
    stepMs: 10,
    stepRequestMs: 0.5,
    stepContextTokenMs: 0.001,
  })
})

it.each([
  ['a line', { x: [1, 8], y: [10, 17] }, [9, 1]],
  ['more requests are no slower', { x: [1, 8], y: [10, 9] }, [10, 0]],
  ['one number of requests', { x: [4], y: [12] }, [12, 0]],
  ['more than one by one', { x: [1, 8], y: [2, 24] }, [0, 3]],
] as const)('measured steps, %s', (_, { x, y }, expected) => {
  const { stepMs, stepRequestMs } = enginePaceOf(linear([3], { x: [...x], y: [...y] }), {
    requestMs: 0,
    msPerToken: 0,
  })
  expect([stepMs, stepRequestMs]).toEqual(expected)
})
