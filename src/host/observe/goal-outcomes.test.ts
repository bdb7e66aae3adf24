import { expect, it } from 'vitest'
import { goalOutcomes } from './goal-outcomes.ts'

const END = {
  outcome: 'success' as const,
  errorCode: undefined,
  ttftMs: 100,
  itlMs: 10,
  ttftTargetMs: undefined,
  itlTargetMs: undefined,
  durationMs: 500,
}
const words = (end: Partial<Parameters<typeof goalOutcomes>[0]>) =>
  goalOutcomes({ ...END, ...end }).map(({ goal, outcome }) => `${goal} ${outcome}`)

it.each([
  ['no goals', {}, []],
  ['at the goals', { ttftTargetMs: 100, itlTargetMs: 10 }, ['ttft met', 'itl met']],
  ['above them', { ttftTargetMs: 99.9, itlTargetMs: 9.9 }, ['ttft missed', 'itl missed']],
  ['one token', { itlMs: undefined, itlTargetMs: 9 }, []],
  [
    'refused for them',
    {
      outcome: 'error' as const,
      errorCode: 'capacity.goal_unreachable' as const,
      ttftMs: undefined,
      itlMs: undefined,
      ttftTargetMs: 9,
      itlTargetMs: 9,
    },
    ['ttft refused', 'itl refused'],
  ],
  [
    'failed before the first token',
    {
      outcome: 'error' as const,
      ttftMs: undefined,
      itlMs: undefined,
      ttftTargetMs: 9,
      itlTargetMs: 9,
    },
    ['ttft missed', 'itl missed'],
  ],
  [
    'the client left in time',
    { outcome: 'cancelled' as const, ttftMs: undefined, ttftTargetMs: 500 },
    [],
  ],
  [
    'the client left when it was late',
    { outcome: 'cancelled' as const, ttftMs: undefined, ttftTargetMs: 499 },
    ['ttft missed'],
  ],
])('%s', (_, end, expected) => {
  expect(words(end)).toEqual(expected)
})
