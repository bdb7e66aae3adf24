import { describe, expect, it } from 'vitest'
import { freeOwned } from '../../base/index.ts'
import { BodyPieces } from './body-pieces.ts'

const MIB = 1024 * 1024

function wholeOf(announced: number, pieces: readonly string[], bytesMax = 2 * MIB): string | null {
  const body = new BodyPieces(announced, bytesMax)
  for (const piece of pieces) if (!body.add(Buffer.from(piece))) return null
  return Buffer.from(body.whole()).toString()
}

describe('BodyPieces', () => {
  it('no piece, one, several - the whole body, whatever length was announced', () => {
    for (const announced of [0, Number.NaN, 2, 4, 6, 9, MIB, MIB + 1, -1]) {
      expect(wholeOf(announced, [])).toBe('')
      expect(wholeOf(announced, ['one'])).toBe('one')
      expect(wholeOf(announced, ['one', 'two', 'six'])).toBe('onetwosix')
    }
  })

  it('the limit of bytes - may be reached, not exceeded', () => {
    expect(wholeOf(0, ['1234', '567'], 7)).toBe('1234567')
    expect(wholeOf(7, ['1234', '567'], 7)).toBe('1234567')
    expect(wholeOf(0, ['1234', '5678'], 7)).toBeNull()
    expect(wholeOf(7, ['1234', '5678'], 7)).toBeNull()
  })

  it.each([MIB - 1, MIB, MIB + 1])('%i bytes in pieces - are the same bytes', (length) => {
    const bytes = Buffer.from(Uint8Array.from({ length }, (_, at) => at * 31))
    const body = new BodyPieces(length, length)
    for (let at = 0; at < length; at += 60_000) body.add(bytes.subarray(at, at + 60_000))
    expect(bytes.equals(body.whole())).toBe(true)
  })

  it.each([0, 120_000])(
    'a large piece with memory of its own, %i bytes announced - is freed when it was copied; one that shares its memory is kept',
    (announced) => {
      const own = Buffer.alloc(60_000, 'a')
      const shared = Buffer.alloc(70_000, 'b').subarray(10_000)
      const body = new BodyPieces(announced, 120_000)
      body.add(own)
      body.add(shared)
      const whole = body.whole()
      expect([own.length, shared.length]).toEqual([0, 60_000])
      expect(Buffer.from(whole).toString()).toBe('a'.repeat(60_000) + 'b'.repeat(60_000))
      freeOwned(whole.buffer)
      expect(whole.length).toBe(0)
    },
  )

  it('a piece whose buffer is reused by its reader - does not change the added bytes', () => {
    const piece = Buffer.from('abc')
    const body = new BodyPieces(6, 6)
    body.add(piece)
    piece.fill('x')
    body.add(Buffer.from('def'))
    expect(Buffer.from(body.whole()).toString()).toBe('abcdef')
  })
})
