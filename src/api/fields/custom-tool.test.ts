import { describe, expect, it } from 'vitest'
import { everyCut } from '../../../test/text/every-cut.ts'
import { CustomToolInput } from './custom-tool.ts'

function read(pieces: readonly string[]): [string, string] {
  const input = new CustomToolInput()
  const deltas = pieces.map((piece) => input.push(piece)).join('') + input.end()
  return [deltas, input.text]
}

describe('the input of a custom tool', () => {
  it.each([
    [
      '{"input":"*** Begin\\n+\\"x\\" \\\\ é🦊 \\ud83e\\udd8a \\u00e9"}',
      '*** Begin\n+"x" \\ é🦊 🦊 é',
    ],
    ['{ "input" : "" }', ''],
    ['{"input":"cut of', 'cut of'],
    ['{"input":"a\nb\tc"}', 'a\nb\tc'],
    ['{"text":"a"}', '{"text":"a"}'],
    ['', ''],
  ])('%j - the text, however it is cut', (json, text) => {
    for (const pieces of everyCut(json)) expect(read(pieces)).toEqual([text, text])
  })
})
