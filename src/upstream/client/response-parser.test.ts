import { describe, expect, it } from 'vitest'
import { ResponseParser } from './response-parser.ts'
import type { ResponseHead } from './response-parser.ts'

interface Read {
  readonly head: ResponseHead | null
  readonly body: string
  readonly ends: readonly boolean[]
}

function readIn(
  pieces: readonly string[],
  options: { hasBody?: boolean; closes?: boolean } = {},
): Read {
  let head: ResponseHead | null = null
  let body = ''
  const ends: boolean[] = []
  const parser = new ResponseParser(
    {
      onHead: (seen) => {
        head = seen
      },
      onBody: (bytes, start, end) => {
        body += bytes.toString('utf8', start, end)
      },
      onEnd: (isReusable) => ends.push(isReusable),
    },
    options.hasBody ?? true,
  )
  for (const piece of pieces) parser.push(Buffer.from(piece))
  if (options.closes === true) parser.close()
  return { head, body, ends }
}

const CHUNKED =
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nx-a: 2\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-T: 1\r\n\r\n'
const COUNTED = 'HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\n\r\nhello world'

describe('ResponseParser', () => {
  it.each([
    ['chunks', CHUNKED, 200],
    ['a length', COUNTED, 404],
  ])('%s - gives the same result in every cut', (_name, text, status) => {
    const whole = readIn([text])
    expect(whole.head?.status).toBe(status)
    expect(whole.body).toBe('hello world')
    expect(whole.ends).toEqual([true])
    for (let cut = 1; cut < text.length; cut++) {
      expect(readIn([text.slice(0, cut), text.slice(cut)])).toEqual(whole)
    }
    expect(readIn(text.split(''))).toEqual(whole)
  })

  it('repeated headers - are joined, names are in lower case', () => {
    expect(readIn([CHUNKED]).head?.headers.get('x-a')).toBe('1, 2')
  })

  it.each([
    ['chunks', CHUNKED],
    ['a length', COUNTED],
  ])(
    '%s - bytes after the end are not part of it, and the connection is not reused',
    (_name, text) => {
      const read = readIn([`${text}HTTP/1.1 200 OK\r\n`])
      expect(read.body).toBe('hello world')
      expect(read.ends).toEqual([false])
    },
  )

  it('another response on the same connection - is read from its beginning', () => {
    const bodies: string[] = []
    const parser = new ResponseParser({
      onHead: () => bodies.push(''),
      onBody: (bytes, start, end) => {
        bodies[bodies.length - 1] += bytes.toString('utf8', start, end)
      },
      onEnd: () => parser.restart(true),
    })
    for (const text of [CHUNKED, COUNTED, CHUNKED]) parser.push(Buffer.from(text))
    expect(bodies).toEqual(['hello world', 'hello world', 'hello world'])
  })

  it('chunks whose sizes are written in different ways - are all read', () => {
    const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
    const rest = `1\r\na\r\n01\r\nb\r\n1 \r\nc\r\n1;x\r\nd\r\n00000001\r\ne\r\nA\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n`
    expect(readIn([head + rest])).toMatchObject({ body: 'abcde01234567890123456789', ends: [true] })
  })

  it('neither length nor chunks - the body ends with the connection, which cannot be reused', () => {
    const text = 'HTTP/1.0 200 OK\r\n\r\nabc'
    expect(readIn([text]).ends).toEqual([])
    expect(readIn([text], { closes: true })).toMatchObject({ body: 'abc', ends: [false] })
  })

  it('an interim response - is skipped', () => {
    const read = readIn([`HTTP/1.1 100 Continue\r\n\r\n${COUNTED}`])
    expect(read.head?.status).toBe(404)
    expect(read.body).toBe('hello world')
  })

  it.each([
    ['Connection: close', false],
    ['Connection: keep-alive', true],
  ])('%s - whether the connection may be reused', (header, isReusable) => {
    expect(readIn([`HTTP/1.1 204 No Content\r\n${header}\r\n\r\n`]).ends).toEqual([isReusable])
  })

  it('a response to HEAD - has no body whatever its length says', () => {
    const text = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'
    expect(readIn([text], { hasBody: false }).ends).toEqual([true])
  })

  it.each([
    ['no status line', 'hello\r\n\r\n'],
    ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
    ['a length that is none', 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n'],
    ['a chunk without a length', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n'],
    [
      'a chunk longer than it says',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n',
    ],
    [
      'an endless chunk line',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1'.repeat(2000)}`,
    ],
    ['an endless head', `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(70_000)}`],
    ['a status below 100', 'HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n'],
    ['a status above 599', 'HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n'],
    ['another protocol', 'HTTP/1.1 101 X\r\nUpgrade: x\r\n\r\n'],
    ['a compressed transfer', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n'],
    ['a coding that is not known', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: br\r\n\r\n'],
  ])('%s - is refused', (_name, text) => {
    expect(() => readIn([text])).toThrow(/response is invalid/)
  })
})
