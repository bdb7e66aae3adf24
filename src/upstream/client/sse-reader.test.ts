import { describe, expect, it } from 'vitest'
import { SseReader } from './sse-reader.ts'

function eventsOf(pieces: readonly Uint8Array[]): string[] {
  const seen: string[] = []
  const reader = new SseReader((data) => seen.push(data))
  for (const piece of pieces) reader.push(piece)
  reader.end()
  return seen
}

const TEXT =
  ': keepalive 1/1\n\ndata: {"a":1}\n\r\ndata:two\r\n\r\nevent: x\ndata: 1\ndata: 2\n\nid: 7\n\ndata: größe\n\ndata: [DONE]'

describe('SseReader', () => {
  it('comments, other fields, both line endings, no last empty line - the same result in every cut', () => {
    const bytes = Buffer.from(TEXT)
    const expected = ['{"a":1}', 'two', '1\n2', 'größe', '[DONE]']
    expect(eventsOf([bytes])).toEqual(expected)
    for (let cut = 1; cut < bytes.length; cut++) {
      expect(eventsOf([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual(expected)
    }
    expect(eventsOf([...bytes].map((byte) => Buffer.from([byte])))).toEqual(expected)
  })

  it('lines that end with CR only - the same result in every cut', () => {
    const bytes = Buffer.from(TEXT.replaceAll(/\r\n|\n/g, '\r'))
    const expected = ['{"a":1}', 'two', '1\n2', 'größe', '[DONE]']
    expect(eventsOf([bytes])).toEqual(expected)
    for (let cut = 1; cut < bytes.length; cut++) {
      expect(eventsOf([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual(expected)
    }
    expect(eventsOf([...bytes].map((byte) => Buffer.from([byte])))).toEqual(expected)
  })

  it('lines that end with CR only - an event is reported when it is complete', () => {
    const seen: string[] = []
    const reader = new SseReader((data) => seen.push(data))
    for (const event of ['one', 'two', 'three']) reader.push(Buffer.from(`data: ${event}\r\r`))
    expect(seen).toEqual(['one', 'two', 'three'])
  })

  it.each<[string, string, number]>([
    ['lines of one event, without its end', `data: ${'x'.repeat(1 << 20)}\n`, 17],
    ['one line, without its end', 'x'.repeat(1 << 20), 17],
  ])('%s - are refused above 16 MiB', (_name, piece, count) => {
    const reader = new SseReader(() => undefined)
    const bytes = Buffer.from(piece)
    const feed = (): void => {
      for (let i = 0; i < count; i++) reader.push(bytes)
    }
    expect(feed).toThrow('an event of the upstream is too long')
  })

  it('a line of 15 MiB in small pieces - is copied once, not with each piece', () => {
    const seen: number[] = []
    const reader = new SseReader((data) => seen.push(data.length))
    reader.push(Buffer.from('data: '))
    const piece = Buffer.from('x'.repeat(256))
    const count = (15 << 20) / piece.length
    for (let i = 0; i < count; i++) reader.push(piece)
    reader.push(Buffer.from('\n\n'))
    expect(seen).toEqual([15 << 20])
  })

  it('a buffer that is reused - does not change earlier results', () => {
    const buffer = Buffer.from('data: abc')
    const seen: string[] = []
    const reader = new SseReader((data) => seen.push(data))
    reader.push(buffer)
    buffer.fill('x')
    reader.push(Buffer.from('\n\n'))
    expect(seen).toEqual(['abc'])
  })
})
