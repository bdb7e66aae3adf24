import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { readForwardBody } from '../forward/forward-body.ts'
import { checkedMedia } from './checked-media.ts'
import { BAD, CHAT, GOOD, image, parts, PDF, PNG } from '../../../test/frontend/media-cases.ts'
import type { FetchMedia } from './media-options.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
interface Options {
  readonly path?: string
  readonly bytesMax?: number
  readonly bodyBytesMax?: number
  readonly fetch?: FetchMedia
}

async function check(body: unknown, options: Options = {}): Promise<string> {
  const { path = CHAT, fetch, bytesMax = 1000, bodyBytesMax = 1e6 } = options
  const bytes = bytesOf(typeof body === 'string' ? body : JSON.stringify(body))
  const sources = readForwardBody(bytes, 'application/json', path).media()
  const { signal } = new AbortController()
  const rest = { bytesMax, bodyBytesMax, signal, ...(fetch === undefined ? {} : { fetch }) }
  return textOf(await checkedMedia(bytes, sources, rest))
}

async function refusal(body: unknown, options: Options = {}): Promise<BatonError> {
  const thrown: unknown = await check(body, options).catch((error: unknown) => error)
  if (thrown instanceof BatonError) return thrown
  throw new Error(`was not refused: ${JSON.stringify(body)}`)
}

describe('media in forwarded bodies', () => {
  it.each(GOOD)('%s (%s) - is forwarded unchanged', async (_what, path, body) => {
    const written = typeof body === 'string' ? body : JSON.stringify(body)
    expect(await check(written, { path })).toBe(written)
  })

  it.each(BAD)('%s (%s) - is refused, and the field is named', async (_what, path, body, param) => {
    const { code, message, data } = await refusal(body, { path })
    expect([code, data['param']]).toEqual(['request.invalid_argument', param])
    expect(message).toContain(`\`${param}\``)
  })

  it.each([
    ['\\u0069mage_url', 'image_url'],
    ['image_url', 'im\\u0061ge_url'],
    ['i\\u006dage_url', '\\u0069\\u006dage_url'],
    ['text', '\\u0069mage_url'],
  ])(
    'a part of type %s with a field %s - is found although it is written with escapes',
    async (type, field) => {
      const part = `{"type":"${type}","${field}":{"url":"http://10.0.0.1/x"}}`
      const body = `{"model":"m","messages":[{"role":"user","content":[${part}]}]}`
      const { code, data } = await refusal(body)
      expect([code, String(data['param'])]).toEqual([
        'request.invalid_argument',
        expect.stringContaining('url'),
      ])
    },
  )

  it.each([
    ['as base64', (bytes: Buffer) => image(`data:image/png;base64,${bytes.toString('base64')}`)],
    [
      'as base64 in lines',
      (bytes: Buffer) =>
        image(`data:image/png;base64,${bytes.toString('base64').replace(/.{64}/g, '$&\r\n')}`),
    ],
    ['not as base64', (bytes: Buffer) => image(`data:image/png,${'\u0001'.repeat(bytes.length)}`)],
    [
      'of Messages',
      (bytes: Buffer) =>
        parts({
          type: 'image',
          source: { type: 'base64', media_type: 'image/png', data: bytes.toString('base64') },
        }),
    ],
  ])('size %s - accepted up to the limit, 413 above', async (_what, of) => {
    await check(of(Buffer.alloc(998, 1)))
    await check(of(Buffer.alloc(1000, 1)))
    const { code, data } = await refusal(of(Buffer.alloc(1002, 1)))
    expect([code, data['limit']]).toEqual(['request.payload_too_large', 1000])
  })

  it('number of media - up to 128', async () => {
    const many = (count: number) =>
      parts(
        ...Array.from({ length: count }, () => ({
          type: 'image_url',
          image_url: { url: `data:image/png;base64,${PNG}` },
        })),
      )
    await check(many(128))
    expect((await refusal(many(129))).message).toContain('128')
  })

  it('media at any position in a long body, across the borders of scanned pieces - are found', async () => {
    const part = '{"type":"image_url","image_url":{"url":"http://a.b"}}'
    const before = '{"messages":[{"content":[{"type":"text","text":"'
    for (let at = -60; at <= 4; at++) {
      const filler = 'x'.repeat(65_536 - before.length - 4 + at)
      const body = `${before}${filler}"},${part}]}]}`
      expect((await refusal(body)).data['param']).toBe('messages[0].content[1].image_url.url')
    }
  })

  it('endlessly nested content - is refused instead of being read again and again', async () => {
    const nested = (depth: number) =>
      `{"messages":${'[{"content":'.repeat(depth)}"image"${'}]'.repeat(depth)}}`
    await check(nested(8))
    expect((await refusal(nested(400))).message).toContain('nested')
  })
})

describe('media at an allowed address', () => {
  const found: FetchMedia = (url) => {
    const bytes = Buffer.from(
      url.includes('pdf') ? PDF : url.includes('text') ? 'PGh0bWw+' : PNG,
      'base64',
    )
    return Promise.resolve({
      byteLength: bytes.length,
      head: bytes,
      base64: bytes.toString('base64'),
    })
  }
  it.each([
    [
      CHAT,
      '{"n":1.50, "messages":[{"content":[{"type":"image_url","image_url":{"url":"https:\\/\\/a.b/i","detail":"low"}}]}],"z":1}',
      `{"n":1.50, "messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,${PNG}","detail":"low"}}]}],"z":1}`,
    ],
    [
      '/v1/responses',
      '{"input":[{"content":[{"type":"input_image","image_url":"http://a.b"},{"type":"input_file","file_url" : "http://a.b/pdf","x":1}]}]}',
      `{"input":[{"content":[{"type":"input_image","image_url":"data:image/png;base64,${PNG}"},{"type":"input_file","file_data":"data:application/pdf;base64,${PDF}","x":1}]}]}`,
    ],
    [
      '/v1/messages',
      '{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"http://a.b"} },{"type":"document","source":{ "url":"http://a.b/pdf","type":"url"}}]}]}',
      `{"messages":[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"${PNG}"} },{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"${PDF}"}}]}]}`,
    ],
  ])('%s - the data replaces the address, all else is unchanged', async (path, body, becomes) => {
    expect(await check(body, { path, fetch: found })).toBe(becomes)
  })

  it('content that is no image - is refused', async () => {
    const { message } = await refusal(image('http://a.b/text'), { fetch: found })
    expect(message).toBe(
      '`messages[0].content[0].image_url.url`: the content at this address is not an image',
    )
  })

  it('an error of the fetch - is reported with the field', async () => {
    const fails: FetchMedia = () =>
      Promise.reject(new BatonError('request.invalid_argument', 'the address answered 404'))
    const { message, data } = await refusal(image('http://a.b'), { fetch: fails })
    expect([message, data['param']]).toEqual([
      '`messages[0].content[0].image_url.url`: the address answered 404',
      'messages[0].content[0].image_url.url',
    ])
  })

  it('other schemes - are refused before anything is fetched', async () => {
    let asked = 0
    const fetch: FetchMedia = (url, options) => {
      asked++
      return found(url, options)
    }
    const two = parts(
      { type: 'image_url', image_url: { url: 'http://a.b' } },
      { type: 'image_url', image_url: { url: 'file:///x' } },
    )
    expect((await refusal(two, { fetch })).message).toContain('file:')
    expect(asked).toBe(0)
  })

  it('no more is fetched than the body has room for', async () => {
    const seen: number[] = []
    const fetch: FetchMedia = (url, options) => {
      seen.push(options.bytesMax)
      return found(url, options)
    }
    await check(image('http://a.b'), { fetch, bodyBytesMax: 500 })
    expect(seen).toEqual([Math.floor(((500 - JSON.stringify(image('http://a.b')).length) * 3) / 4)])
  })
})
