import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const namesOf = (path: string): string[] => {
  const text = readFileSync(new URL(path, import.meta.url), 'utf8')
  return [...text.matchAll(/export (?:type )?\{([^}]*)\}/g)]
    .flatMap((match) => (match[1] ?? '').split(','))
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

describe('baton-llm/engine', () => {
  it("exports - everything of the engine room's index, and a clock", () => {
    const door = namesOf('../src/engine-door.ts')
    expect(door).toEqual(expect.arrayContaining(namesOf('../src/engine/index.ts')))
    expect(door).toContain('osClock')
  })

  it.each(['KvEvent', 'LoadReport', 'EngineFeature', 'Clock', 'FinishReason', 'TokenLogprobs'])(
    '%s - is exported for engine authors',
    (name) => expect(namesOf('../src/engine-door.ts')).toContain(name),
  )
})
