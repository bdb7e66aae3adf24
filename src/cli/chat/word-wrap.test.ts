import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { widthOf, WordWrap } from './word-wrap.ts'

function wrapped(text: string, columns: number, cuts: readonly number[] = []): string {
  const wrap = new WordWrap(columns)
  let out = ''
  let from = 0
  for (const cut of [...cuts, text.length]) {
    out += wrap.write(text.slice(from, cut))
    from = cut
  }
  return out + wrap.end()
}

describe('WordWrap', () => {
  it.each([
    ['one two three', 7, 'one two\nthree'],
    ['one two three', 13, 'one two three'],
    ['one two three', 12, 'one two\nthree'],
    ['one\ntwo', 20, 'one\ntwo'],
    ['a  b', 20, 'a  b'],
    ['averyveryverylongword b', 5, 'averyveryverylongword\nb'],
    ['  indented', 20, '  indented'],
    ['日本 語', 4, '日本\n語'],
  ])('%j in %i columns', (text, columns, expected) => {
    expect(wrapped(text, columns)).toBe(expected)
  })

  it('however the text is split into pieces - the output is the same, no line is too long, no word is broken or lost', () => {
    const words = fc.array(fc.stringMatching(/^[a-z]{1,9}$/), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(
        words,
        fc.integer({ min: 9, max: 30 }),
        fc.array(fc.nat(400)),
        (all, columns, at) => {
          const text = all.join(' ')
          const cuts = at.filter((cut) => cut < text.length).sort((a, b) => a - b)
          const out = wrapped(text, columns, cuts)
          expect(out).toBe(wrapped(text, columns))
          expect(out.split(/\s+/)).toEqual(all)
          expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(
            columns,
          )
        },
      ),
    )
  })

  it('without a terminal - nothing is held back', () => {
    expect(new WordWrap(Number.POSITIVE_INFINITY).write('half a wo')).toBe('half a wo')
  })

  it.each([
    ['abc', 3],
    ['ü', 1],
    [String.fromCodePoint(0x65, 0x301), 1],
    ['日本', 4],
    ['🎉', 2],
  ])('%s takes %i columns', (text, width) => expect(widthOf(text)).toBe(width))
})
