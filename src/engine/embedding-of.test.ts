import { describe, expect, it } from 'vitest'
import { embeddingOf } from './embedding-of.ts'

describe('embeddingOf', () => {
  it('a vector - is copied, because the engine may use its memory again', () => {
    const given = Float32Array.of(1, 2)
    const own = embeddingOf(given)
    given[0] = 9
    expect(own).toEqual(Float32Array.of(1, 2))
  })

  it('a subclass - becomes a Float32Array of the length that it has', () => {
    class Odd extends Float32Array {
      override get length(): number {
        return 5000
      }
      override get buffer(): never {
        throw new Error('no')
      }
    }
    const own = embeddingOf(new Odd(2))
    expect(own).toEqual(new Float32Array(2))
    expect(own?.constructor).toBe(Float32Array)
  })

  it('a number that is another one the second time - is read once', () => {
    let reads = 0
    const given = Object.defineProperty([1, 0], 1, { get: () => (reads++ === 0 ? 2 : 'x') })
    expect(embeddingOf(given)).toEqual(Float32Array.of(1, 2))
  })

  it.each<[string, unknown]>([
    ['a list of 4 billion holes', Object.assign([], { length: 2 ** 32 - 1 })],
    ['a proxy without an end', new Proxy([], { get: () => Infinity })],
    ['a proxy whose length is no number', new Proxy([], { get: () => NaN })],
    ['a vector behind a proxy', new Proxy(Float32Array.of(1), {})],
    ['a list with a hole', Object.assign([1], { length: 2 })],
    ['integers', Int32Array.of(1)],
  ])('%s - is none', (_name, given) => {
    expect(embeddingOf(given)).toBeNull()
  })

  it.each([
    [1_048_575, 1_048_575],
    [1_048_576, 1_048_576],
    [1_048_577, undefined],
  ])('%i numbers - the vector has %s', (given, length) => {
    expect(embeddingOf(new Float64Array(given))?.length).toBe(length)
    expect(embeddingOf(Array<number>(given).fill(1))?.length).toBe(length)
  })
})
