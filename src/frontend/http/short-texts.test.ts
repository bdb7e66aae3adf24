import { describe, expect, it } from 'vitest'
import { asciiOf } from './json-members.ts'

const bytesOf = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0))
const textOf = (text: string) => asciiOf(bytesOf(`<${text}>`), 1, text.length + 1)

describe('short parts of a body as text', () => {
  it('the same bytes twice, with others of the same length in between - give the right text', () => {
    expect(['model', 'madel', 'model', ''].map(textOf)).toEqual(['model', 'madel', 'model', ''])
  })

  it('more texts than are cached, of every length - are right, also the second time', () => {
    const pieces = Array.from({ length: 3000 }, (_, at) => 'x'.repeat(at % 40) + at.toString(36))
    expect(pieces.map(textOf)).toEqual(pieces)
    expect(pieces.map(textOf)).toEqual(pieces)
  })

  it('bytes above 0x7f - one character each', () => {
    const all = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).join('')
    expect(textOf(all)).toBe(all)
    expect(textOf(all.slice(230))).toBe(all.slice(230))
  })
})
