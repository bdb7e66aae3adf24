import { describe, expect, it } from 'vitest'
import { servedModelNames } from './worker-card.ts'

describe('servedModelNames', () => {
  it.each([
    [{ model: 'm' }, ['m']],
    [{ model: 'm', servedModelName: 's' }, ['s']],
    [{ model: 'm', servedModelName: 's', modelAliases: ['a', 'b'] }, ['s', 'a', 'b']],
    [{ model: 'm', modelAliases: ['a'] }, ['m', 'a']],
  ])('%j - is served as %j', (engine, names) => {
    expect(servedModelNames(engine)).toEqual(names)
  })
})
