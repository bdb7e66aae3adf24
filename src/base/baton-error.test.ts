import { describe, expect, it } from 'vitest'
import { BatonError, errorOf, messageOf } from './baton-error.ts'
import { ERROR_CODES } from './error-codes.ts'
import type { ErrorCode } from './error-codes.ts'

const CODES = Object.keys(ERROR_CODES) as ErrorCode[]

describe('BatonError - as plain data', () => {
  it('every code - keeps message, data and table row through JSON', () => {
    const data = { param: 'top_p', limit: 1.5, isLate: true, stage: null }
    for (const code of CODES) {
      const error = new BatonError(code, `what “${code}” says\n`, { data })
      const copy = BatonError.fromValue(JSON.parse(JSON.stringify(error.toValue())))
      expect(copy).toBeInstanceOf(BatonError)
      expect(copy.toValue()).toEqual(error.toValue())
      expect(copy.row).toBe(ERROR_CODES[code])
    }
  })

  it('the value - contains neither stack nor cause, and no data if there is none', () => {
    const error = new BatonError('kv.offer_gone', 'late', { cause: new Error('/secret/path') })
    expect(error.toValue()).toEqual({ code: 'kv.offer_gone', message: 'late' })
  })

  it.each(['no.such', '', 'constructor', '__proto__', 'toString'])(
    'the unknown code %j - is backend.unknown, the message stays',
    (code) => {
      const error = BatonError.fromValue({ code, message: 'm', data: { a: 1 } })
      expect(error.toValue()).toEqual({ code: 'backend.unknown', message: 'm', data: { a: 1 } })
    },
  )
})

describe('BatonError.from', () => {
  it('a BatonError - is returned unchanged, whatever the fallback', () => {
    const error = new BatonError('request.conflict', 'm')
    expect(BatonError.from(error, 'backend.unknown')).toBe(error)
  })

  it('a BatonError of another copy of the module - keeps code, message and data', async () => {
    const path = './baton-error.ts?copy'
    const other = (await import(path)) as { BatonError: typeof BatonError }
    const thrown = new other.BatonError('request.conflict', 'm', { data: { a: 1 } })
    expect(thrown).not.toBeInstanceOf(BatonError)
    const error = BatonError.from(thrown, 'backend.unknown')
    expect(error).toBeInstanceOf(BatonError)
    expect(error.toValue()).toEqual(thrown.toValue())
  })

  it('another error - gets the fallback code and becomes the cause', () => {
    const thrown = new TypeError('x is not a function')
    const error = BatonError.from(thrown, 'backend.unknown')
    expect(error).toMatchObject({ code: 'backend.unknown', message: thrown.message, cause: thrown })
    expect(BatonError.from(thrown).code).toBe('runtime.internal')
  })

  it('an AggregateError - its first four messages are joined', () => {
    const refused = (n: number): Error => new Error(`connect ECONNREFUSED 10.0.0.${n}:1`)
    const both = BatonError.from(new AggregateError([refused(1), refused(2)]))
    expect(both.message).toBe('connect ECONNREFUSED 10.0.0.1:1; connect ECONNREFUSED 10.0.0.2:1')
    const four = [1, 2, 3, 4].map(refused)
    expect(BatonError.from(new AggregateError(four)).message).not.toContain('…')
    expect(BatonError.from(new AggregateError([...four, refused(5)])).message).toMatch(/0\.4:1; …$/)
    expect(BatonError.from(new AggregateError(four, 'none answers')).message).toBe('none answers')
  })

  it('an object without a text - has a sentence instead', () => {
    const bare: unknown = Object.create(null)
    expect(BatonError.from(bare).message).toMatch(/cannot be converted to text/)
    expect(messageOf(bare)).toMatch(/cannot be converted to text/)
    expect(errorOf(bare).message).toMatch(/cannot be converted to text/)
  })

  it.each([['a text'], [undefined], [null], [42]])('%j - becomes a BatonError, too', (thrown) => {
    expect(BatonError.from(thrown).message).toBe(String(thrown))
  })
})
