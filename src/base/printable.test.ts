import { describe, expect, it } from 'vitest'
import { printable, printableLines } from './printable.ts'

describe('printable', () => {
  it.each([
    ['\u0000', '\u001F'],
    ['\u007F', '\u009F'],
    ['\u2028', '\u202E'],
    ['\u2066', '\u2069'],
  ])('the first and the last of a range become spaces, their neighbours stay', (first, last) => {
    const after = String.fromCodePoint((last.codePointAt(0) ?? 0) + 1)
    const before = String.fromCodePoint(Math.max(0x20, (first.codePointAt(0) ?? 0) - 1))
    expect(printable(`${before}${first}${last}${after}`)).toBe(`${before}  ${after}`)
  })

  it('letters of any script, emoji and spaces - are kept', () => {
    expect(printable('naïve 四 🎉 שלום')).toBe('naïve 四 🎉 שלום')
  })
})

describe('printableLines', () => {
  it('line feeds and tabs - are kept; escape sequences lose their escape character', () => {
    expect(printableLines('a\n\tb \u001B[2Jc\r\u0007\u009B1m')).toBe('a\n\tb  [2Jc   1m')
  })
})
