import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { excessOfJson, sizeOfJson } from './json-size.ts'

const sizeOf = (json: string) => sizeOfJson(new TextEncoder().encode(json))

describe('the size of JSON', () => {
  it.each([
    ['1', 0, 0, 0],
    ['{}', 1, 0, 1],
    ['[]', 1, 0, 1],
    ['[1,2,-3]', 1, 2, 1],
    ['[1, 2]', 1, 1, 1],
    ['["a","b"]', 1, 0, 2],
    ['[[],[]]', 2, 0, 3],
    ['[[], []]', 2, 0, 3],
    ['{"a":{},"b":[]}', 2, 0, 4],
    ['{"a":{"b":{"c":1}}}', 3, 0, 3],
    ['{"a":"[[,,\\"{{"}', 1, 0, 1],
  ])('%s - depth %i, %i numbers, %i other values', (json, depth, numbers, values) => {
    expect(sizeOf(json)).toEqual({ depth, numbers, values, isClosed: true })
  })

  it('strings of any length, with and without escapes - what is in them does not count', () => {
    for (let length = 0; length < 80; length++) {
      for (const escape of ['', '\\"', '\\\\']) {
        for (const text of [`${escape}${'['.repeat(length)}`, `${','.repeat(length)}${escape}`]) {
          expect(sizeOf(`["${text}","${text}"]`)).toMatchObject({ depth: 1, values: 2 })
          expect(sizeOf(`["${text}]`).isClosed).toBe(false)
        }
      }
    }
  })

  it.each(['[', '{"a":[1}', '"', '{"a":"}', '[]]', '{"a":"\\"}'])('%s - is not closed', (json) => {
    expect(sizeOf(json).isClosed).toBe(false)
  })

  it('of any JSON - no list, object or further element is missed', () => {
    const containersOf = (value: unknown): number =>
      typeof value !== 'object' || value === null
        ? 0
        : Object.values(value).reduce((sum: number, item) => sum + containersOf(item), 1)
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.stringify(value)
        const { isClosed, values, numbers } = sizeOf(json)
        const commas = json.replace(/"(?:[^"\\]|\\.)*"/g, '').split(',').length - 1
        expect(isClosed).toBe(true)
        expect(values + numbers).toBeGreaterThanOrEqual(Math.max(commas, containersOf(value)))
        expect(values + numbers).toBeLessThanOrEqual(commas + containersOf(value))
      }),
    )
  })

  it('limits - nothing exceeds them at the limit', () => {
    const size = { depth: 3, numbers: 4, values: 5, isClosed: true }
    expect(excessOfJson(size, { depth: 3, numbers: 4, values: 5 })).toBeNull()
    expect(excessOfJson(size, { depth: 2, numbers: 4, values: 5 })).toMatch('more than 2 deep')
    expect(excessOfJson(size, { depth: 3, numbers: 3, values: 5 })).toMatch('more than 3 numbers')
    expect(excessOfJson(size, { depth: 3, numbers: 4, values: 4 })).toMatch('more than 4 values')
  })
})
