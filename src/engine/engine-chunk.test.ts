/** A chunk is what was checked: the engine cannot change it afterwards, and it has no fields that are not its own. */
import { describe, expect, it } from 'vitest'
import { usageOf } from '../request/index.ts'
import { chunkOf } from './engine-chunk.ts'
import type { EngineChunk } from './engine-chunk.ts'
import { StreamValidator } from './validate-stream.ts'

/** Every read of a field of it, at any depth, is counted; the second one returns something else. */
function shifty(value: object, reads: Map<string, number>, path = ''): object {
  return new Proxy(value, {
    get: (target, name) => {
      const at = `${path}.${String(name)}`
      const isIndexOrField = typeof name === 'string' && name !== 'length'
      const count = (reads.get(at) ?? 0) + 1
      if (isIndexOrField) reads.set(at, count)
      if (isIndexOrField && count > 1) return 'changed'
      const read: unknown = Reflect.get(target, name)
      return typeof read === 'object' && read !== null ? shifty(read, reads, at) : read
    },
  })
}

const score = { tokenId: 5, logprob: -1, top: [{ tokenId: 6, logprob: -2 }] }
const full = {
  tokenIds: [5],
  logprobs: [score],
  promptLogprobs: { from: 1, tokens: [score] },
  finish: 'stop',
  stopReason: 'end',
  usage: usageOf(3, 1, 2),
  prefillResult: { engineParams: { room: [1, { b: 2 }] }, cachedTokens: 2, meetsDecode: true },
  engineData: { list: [1, 'a', null], bytes: Uint8Array.of(1, 2) },
} as const

describe('chunkOf', () => {
  it.each<[string, EngineChunk]>([
    ['one token', { tokenIds: [5] }],
    ['several tokens', { tokenIds: [5, 6, 7] }],
    ['text', { tokenIds: [], text: 'ab' }],
    ['every field', full],
  ])('an item with %s - the chunk is equal and shares no object with it', (_name, item) => {
    const chunk = chunkOf(item)
    expect(chunk).toEqual(item)
    expect(sharedObjects(chunk, item)).toEqual([])
  })

  it('an item whose fields change - each is read once, and the first value counts', () => {
    const { bytes: _bytes, ...engineData } = full.engineData
    const item = { ...full, engineData }
    const reads = new Map<string, number>()
    const seen = chunkOf(shifty(item, reads) as EngineChunk)
    expect(seen).toEqual(item)
    expect([...reads].filter(([, count]) => count > 1)).toEqual([])
  })

  it('bytes of a Buffer - are copied', () => {
    const bytes = Buffer.from([1, 2])
    const { engineData } = chunkOf({ tokenIds: [], engineData: { bytes } })!
    bytes[0] = 9
    expect((engineData as { bytes: Uint8Array }).bytes[0]).toBe(1)
  })

  it('an offer of KV, times of the worker, other fields - are not taken from an engine', () => {
    const item = {
      tokenIds: [5],
      finish: 'length',
      prefillResult: { kvOffer: { host: 'evil', port: 1 }, cachedTokens: 1 },
      started: { queuedMs: -1 },
      trace: 'x',
    } as unknown as EngineChunk
    expect(chunkOf(item)).toEqual({
      tokenIds: [5],
      finish: 'length',
      prefillResult: { cachedTokens: 1 },
    })
  })

  it('a key `__proto__` in engine data - stays a key', () => {
    const engineData: unknown = JSON.parse('{"__proto__":{"a":1}}')
    const chunk = chunkOf({ tokenIds: [], engineData })!
    expect(Object.keys(chunk.engineData as object)).toEqual(['__proto__'])
  })

  const endless = new Proxy([], {
    get: (_, name) => (name === 'length' ? Number.MAX_SAFE_INTEGER : 0),
  })
  const branching: unknown[] = []
  branching.push(branching, branching)
  it.each<[string, object]>([
    ['ids', { tokenIds: endless }],
    ['scores', { tokenIds: [5], logprobs: endless }],
    ['alternatives', { tokenIds: [5], logprobs: [{ ...score, top: endless }] }],
    ['engine data', { tokenIds: [5], engineData: endless }],
    ['engine data that contains itself twice', { tokenIds: [5], engineData: branching }],
  ])('%s without an end - are refused', (_name, item) => {
    const validator = new StreamValidator()
    expect(() => validator.chunk(item as EngineChunk)).toThrow(/cannot be read|contains itself/)
  })
})

/** Paths of objects that both values hold. */
function sharedObjects(a: unknown, b: unknown, path = ''): string[] {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return []
  const below = Object.keys(a).flatMap((key) =>
    sharedObjects(Reflect.get(a, key), Reflect.get(b, key), `${path}.${key}`),
  )
  return a === b ? [path, ...below] : below
}
