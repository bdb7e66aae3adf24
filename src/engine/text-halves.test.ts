import { describe, expect, it } from 'vitest'
import { finishChunk, textChunk } from '../request/index.ts'
import { TextHalves } from './text-halves.ts'

/** The texts of the chunks; `null`: an end without text. */
function joined(pieces: readonly (string | null)[]): string[] {
  const halves = new TextHalves()
  return pieces.map(
    (piece) => halves.whole(piece === null ? finishChunk('stop') : textChunk(piece)).text ?? '-',
  )
}

describe('TextHalves', () => {
  const [first, second] = ['😀'.slice(0, 1), '😀'.slice(1)] as const
  it.each<[string, (string | null)[], string[]]>([
    ['whole characters', ['a😀', 'ß', null], ['a😀', 'ß', '-']],
    ['a character in two pieces', [`a${first}`, `${second}b`], ['a', '😀b']],
    ['two such characters', [`${first}`, `${second}${first}`, second], ['', '😀', '😀']],
    ['an empty piece in between', [first, '', second], ['', '', '😀']],
    ['a first half without the second', [first, 'b'], ['', '\ufffdb']],
    ['a second half without the first', [`a${second}`], ['a\ufffd']],
    ['halves in the wrong order', [`${second}${first}`, second], ['\ufffd', '😀']],
    ['a first half at the end', [first, null], ['', '\ufffd']],
  ])('%s', (_name, pieces, texts) => {
    expect(joined(pieces)).toEqual(texts)
  })

  it('a last piece that ends in a half - ends with U+FFFD', () => {
    expect(new TextHalves().whole(finishChunk('stop', { text: `a${first}` })).text).toBe('a\ufffd')
  })
})
