import { describe, expect, it } from 'vitest'
import { BatonError } from '../base/index.ts'
import { modeName, parseDisaggregationMode } from './disaggregation-mode.ts'

function refusalOf(text: string): BatonError {
  try {
    parseDisaggregationMode(text)
  } catch (thrown) {
    if (thrown instanceof BatonError) return thrown
  }
  throw new Error(`'${text}' was not refused with a typed error`)
}

describe('parseDisaggregationMode', () => {
  it('an unknown mode - the error names the expected ones', () => {
    expect(refusalOf('encode').message).toContain('expected one of: agg, prefill, decode')
  })

  it.each([
    ['agg', 'agg'],
    ['aggregated', 'agg'],
    ['prefill', 'prefill'],
    ['decode', 'decode'],
    ['  Prefill\n', 'prefill'],
    ['\tAGGREGATED ', 'agg'],
    ['DeCoDe', 'decode'],
  ])('%j - is %s', (text, mode) => {
    expect(parseDisaggregationMode(text)).toBe(mode)
    expect(`${parseDisaggregationMode(text)}`).toBe(mode)
  })

  it.each([
    ['encode', 'encode'],
    [' ENCODE ', 'encode'],
    ['Pre-Fill', 'pre-fill'],
    ['', ''],
    ['   ', ''],
    ['agg decode', 'agg decode'],
    ['constructor', 'constructor'],
  ])('%j - is refused; the value is named as %j with those that are accepted', (text, named) => {
    const { code, message, data } = refusalOf(text)
    expect(code).toBe('request.invalid_argument')
    expect(message).toContain(`'${named}'`)
    expect(message).toMatch(/agg.*prefill.*decode/)
    expect(data).toEqual({ value: named, accepted: 'agg, prefill, decode' })
  })
})

describe('modeName', () => {
  it.each([
    ['agg', 'aggregated'],
    ['prefill', 'prefill'],
    ['decode', 'decode'],
  ] as const)('%s - is %j, and reads back', (mode, json) => {
    expect(modeName(mode)).toBe(json)
    expect(parseDisaggregationMode(json)).toBe(mode)
  })
})
