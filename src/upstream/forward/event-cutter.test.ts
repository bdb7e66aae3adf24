import { describe, expect, it } from 'vitest'
import { EventCutter } from './event-cutter.ts'

/** What is passed on after each piece; failures are marked. */
function cut(pieces: readonly string[]): string[] {
  const passed: string[] = []
  let out = ''
  const cutter = new EventCutter({
    events: (text) => (out += text),
    failed: (event) => (out += `FAILED(${event})`),
  })
  for (const piece of pieces) {
    out = ''
    cutter.push(piece)
    passed.push(out)
  }
  out = ''
  cutter.end()
  if (out !== '') passed.push(out)
  return passed
}

describe('EventCutter', () => {
  it.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ])('lines that end with %s - whole events are passed on at once, a part waits', (_, end) => {
    const one = `data: {"n":1}${end}${end}`
    const two = `event: x${end}data: {"n":2}${end}${end}`
    expect(cut([one, two])).toEqual([one, two])
    expect(cut([one + two])).toEqual([one + two])
    expect(cut([one + two.slice(0, 9), two.slice(9)])).toEqual([one, two])
    expect(cut([one + two.slice(0, -1), two.slice(-1)])).toEqual([one, two])
    // The same bytes one by one.
    expect(cut((one + two).split('')).join('')).toBe(one + two)
  })

  it.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ])('lines that end with %s - an event that reports a failure is separate', (_, end) => {
    const good = `data: {"n":1}${end}${end}`
    const bad = `data: {"error":{"message":"x"}}${end}${end}`
    const named = `id: 1${end}event: error${end}data: oops${end}${end}`
    expect(cut([good + bad + good])).toEqual([`${good}FAILED(${bad})${good}`])
    expect(cut([good + named + good])).toEqual([`${good}FAILED(${named})${good}`])
  })
})
