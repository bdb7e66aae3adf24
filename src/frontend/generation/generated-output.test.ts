import { describe, expect, it } from 'vitest'
import { finishChunk } from '../../request/index.ts'
import { GeneratedOutput } from './generated-output.ts'

describe('generated output', () => {
  it('ids - are kept in order, and an earlier snapshot is unchanged by later ids', () => {
    const output = new GeneratedOutput()
    const all: number[] = []
    let earlier = output.tokens()
    for (let at = 0; at < 1000; at++) {
      const tokenId = at % 3 === 0 ? 0xffff_ffff - at : at
      output.push(tokenId)
      all.push(tokenId)
      if (at === 99) earlier = output.tokens()
    }
    expect(Array.from(output.tokens())).toEqual(all)
    expect(Array.from(earlier)).toEqual(all.slice(0, 100))
  })

  it('text between ids - is tokenised before the ids that follow it', () => {
    const output = new GeneratedOutput({
      encode: (text) => Uint32Array.from(text, (letter) => letter.charCodeAt(0)),
    })
    output.push(1)
    output.take({ tokenIds: [], text: 'ab' })
    output.take({ tokenIds: [2, 3] })
    output.take({ ...finishChunk('eos'), text: 'c' })
    expect(Array.from(output.tokens())).toEqual([1, 97, 98, 2, 3, 99])
    expect(output.isLost).toBe(false)
  })

  it('text without a tokenizer - cannot be continued', () => {
    const output = new GeneratedOutput()
    output.take({ tokenIds: [], text: 'a' })
    expect(output.isLost).toBe(true)
  })
})
