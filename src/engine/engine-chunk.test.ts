/** A chunk is what was checked: the engine cannot change it afterwards, and it has no fields that are not its own. */
import { describe, expect, it } from 'vitest'
import { usageOf } from '../request/index.ts'
import { chunkOf } from './engine-chunk.ts'
import type { EngineChunk } from './engine-chunk.ts'
import { VALUE_BYTES } from './item-budget.ts'
import { brokenStreamRule, StreamValidator } from './validate-stream.ts'

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
  it.each<[string, object, string]>([
    ['ids', { tokenIds: endless }, 'item-too-large'],
    ['scores', { tokenIds: [5], logprobs: endless }, 'item-too-large'],
    ['alternatives', { tokenIds: [5], logprobs: [{ ...score, top: endless }] }, 'item-too-large'],
    ['engine data', { tokenIds: [5], engineData: endless }, 'payload-invalid'],
    [
      'engine data that contains itself twice',
      { tokenIds: [5], engineData: branching },
      'payload-invalid',
    ],
  ])('%s without an end - are refused', (_name, item, rule) => {
    expect(ruleOf(item)).toBe(rule)
  })

  // Written here, so that another limit needs another guarantee.
  const IDS_MAX = 4_194_304
  const SCORES_MAX = 1_048_576
  const PAYLOAD_BYTES_MAX = 8 * 1_048_576
  const tops = (count: number) => [{ ...score, top: Array<object>(count).fill(score) }]
  const megabytes = (count: number) => Array<object>(count).fill(new Uint8Array(2 ** 20))
  it.each<[string, number, (count: number) => object]>([
    ['ids', IDS_MAX, (count) => ({ tokenIds: Array<number>(count).fill(7) })],
    ['ids in a typed array', IDS_MAX, (count) => ({ tokenIds: new Uint16Array(count) })],
    ['alternatives', SCORES_MAX - 1, (count) => ({ tokenIds: [5], logprobs: tops(count) })],
    [
      'alternatives of two tokens',
      SCORES_MAX / 2 - 1,
      (count) => ({ tokenIds: [5, 5], logprobs: [...tops(count), ...tops(count)] }),
    ],
    [
      'alternatives of the prompt and of a token',
      SCORES_MAX - 2,
      (count) => ({
        tokenIds: [5],
        logprobs: tops(count),
        promptLogprobs: { from: 1, tokens: [{ ...score, top: [] }] },
      }),
    ],
    ['the same bytes', 7, (count) => ({ tokenIds: [5], engineData: megabytes(count) })],
    [
      'the same bytes in both payloads',
      3,
      (count) => ({
        tokenIds: [5],
        engineData: megabytes(4),
        prefillResult: { engineParams: megabytes(count) },
      }),
    ],
    [
      'values',
      Math.floor(PAYLOAD_BYTES_MAX / VALUE_BYTES) - 1,
      (count) => ({ tokenIds: [5], engineData: [Array<number>(count).fill(1)] }),
    ],
  ])('%s: one less than, exactly and one more than %i - the last is refused', (_name, max, of) => {
    expect(() => chunkOf(of(max - 1) as EngineChunk)).not.toThrow()
    expect(() => chunkOf(of(max) as EngineChunk)).not.toThrow()
    expect(() => chunkOf(of(max + 1) as EngineChunk)).toThrow(/more than \d+ .* in one item/)
  })
})

describe('chunkOf - typed arrays', () => {
  it('a subclass - becomes an array of its base class, of the length that it has', () => {
    const chunk = chunkOf({ tokenIds: new Odd(2), engineData: [new Odd(3)] } as never)!
    expect(chunk.tokenIds).toEqual([0, 0])
    const [copy] = chunk.engineData as [Uint32Array]
    expect([copy.constructor, copy.length]).toEqual([Uint32Array, 3])
  })

  it('a property in the place of a length, a buffer, an iterator - is not read', () => {
    const odd = new Uint8Array(2)
    for (const name of ['length', 'buffer', 'byteLength', 'byteOffset', Symbol.iterator])
      Object.defineProperty(odd, name, { get: refuse })
    const chunk = chunkOf({ tokenIds: odd, engineData: odd })
    expect(chunk).toEqual({ tokenIds: [0, 0], engineData: new Uint8Array(2) })
  })

  it.each<[string, object]>([
    ['ids behind a proxy', { tokenIds: new Proxy(Uint32Array.of(1), {}) }],
    ['what only inherits from an array', { tokenIds: Object.create(Uint32Array.prototype) }],
  ])('%s - are no ids', (_name, item) => {
    expect(ruleOf(item)).toBe('chunk-malformed')
  })

  it.each<[string, unknown]>([
    ['a DataView', new DataView(new ArrayBuffer(2))],
    ['64-bit integers', BigInt64Array.of(1n)],
    ['bytes that were transferred', transferred()],
    ['bytes behind a proxy', new Proxy(Uint8Array.of(1), {})],
  ])('%s in engine data - are refused', (_name, engineData) => {
    expect(ruleOf({ tokenIds: [5], engineData })).not.toBeNull()
  })
})

/** Nothing about it is true but its numbers. */
class Odd extends Uint32Array {
  #reads = 0
  override get length(): number {
    return ++this.#reads * 1000
  }
  override get byteLength(): number {
    return ++this.#reads * 1000
  }
  override get byteOffset(): number {
    return -1
  }
  override get buffer(): never {
    return refuse()
  }
  override [Symbol.iterator](): never {
    return refuse()
  }
  override slice(): never {
    return refuse()
  }
}

function refuse(): never {
  throw new Error('no')
}

function transferred(): Uint8Array {
  const bytes = Uint8Array.of(1)
  structuredClone(bytes, { transfer: [bytes.buffer] })
  return bytes
}

/** The rule that the validator names; null: the item is valid. */
function ruleOf(item: object): unknown {
  try {
    new StreamValidator().chunk(item as EngineChunk)
    return null
  } catch (thrown) {
    return brokenStreamRule(thrown)
  }
}

/** Paths of objects that both values hold. */
function sharedObjects(a: unknown, b: unknown, path = ''): string[] {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return []
  const below = Object.keys(a).flatMap((key) =>
    sharedObjects(Reflect.get(a, key), Reflect.get(b, key), `${path}.${key}`),
  )
  return a === b ? [path, ...below] : below
}
