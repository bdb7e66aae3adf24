import { describe, expect, it } from 'vitest'
import { BatonError } from '../../base/index.ts'
import { readForwardBody } from '../forward/forward-body.ts'
import { checkedMedia } from './checked-media.ts'
import type { FetchMedia } from './media-options.ts'

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').toString('base64')
const WAV = Buffer.from('RIFF\x24\0\0\0WAVEfmt ', 'latin1').toString('base64')
const PDF = Buffer.from('%PDF-1.7\n%\xe2\xe3', 'latin1').toString('base64')
const CHAT = '/v1/chat/completions'
const bytesOf = (text: string) => new TextEncoder().encode(text)
const textOf = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
const parts = (...content: unknown[]) => ({ messages: [{ role: 'user', content }] })
const image = (url: string) => parts({ type: 'image_url', image_url: { url } })

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

const GOOD: readonly (readonly [string, string, unknown])[] = [
  ['an image of chat', CHAT, image(`data:image/png;base64,${PNG}`)],
  ['in capitals, with a parameter', CHAT, image(`DATA:image/PNG;name=a;base64,${PNG}`)],
  [
    'slashes that are escaped',
    CHAT,
    JSON.stringify(image(`data:image/png;base64,${PNG}`)).replaceAll('/', '\\/'),
  ],
  ['without a type', CHAT, image(`data:;base64,${PNG}`)],
  [
    'audio of chat',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: WAV, format: 'wav' } }),
  ],
  [
    'raw audio',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: 'AAAA', format: 'pcm16' } }),
  ],
  [
    'audio as an address',
    CHAT,
    parts({ type: 'audio_url', audio_url: { url: `data:audio/wav;base64,${WAV}` } }),
  ],
  [
    'frames of a video',
    CHAT,
    parts({ type: 'video_url', video_url: { url: `data:video/jpeg;base64,${PNG},${PNG}` } }),
  ],
  [
    'a file of chat',
    CHAT,
    parts({
      type: 'file',
      file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
    }),
  ],
  ['a file by its id', CHAT, parts({ type: 'file', file: { file_id: 'file-1' } })],
  [
    'an image of Responses',
    '/v1/responses',
    {
      input: [
        {
          role: 'user',
          content: [{ type: 'input_image', image_url: `data:image/png;base64,${PNG}` }],
        },
      ],
    },
  ],
  [
    'a file of Responses',
    '/v1/responses',
    {
      input: [
        {
          role: 'user',
          content: [{ type: 'input_file', file_data: `data:application/pdf;base64,${PDF}` }],
        },
      ],
    },
  ],
  [
    'an image of Messages',
    '/v1/messages',
    parts({ type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } }),
  ],
  [
    'a document of Messages',
    '/v1/messages',
    parts({
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: PDF },
    }),
  ],
  [
    'a document that is text',
    '/v1/messages',
    parts({
      type: 'document',
      source: { type: 'text', media_type: 'text/plain', data: 'see http://a.b!' },
    }),
  ],
  ['an address in a text', CHAT, parts({ type: 'text', text: 'http://127.0.0.1/' })],
  [
    'an address in what a tool was called with',
    '/v1/messages',
    parts({
      type: 'tool_use',
      id: 't',
      name: 'show',
      input: { content: [{ type: 'image_url', image_url: { url: 'http://a.b/' } }] },
    }),
  ],
  [
    'a schema with such names',
    CHAT,
    {
      messages: [],
      tools: [
        {
          type: 'function',
          function: { parameters: { properties: { image_url: { url: 'http://a.b' } } } },
        },
      ],
    },
  ],
]

const BAD: readonly (readonly [string, string, unknown, string])[] = [
  ['an address', CHAT, image('http://a.b/c.png'), 'messages[0].content[0].image_url.url'],
  ['https', CHAT, image('https://a.b/c.png'), 'messages[0].content[0].image_url.url'],
  [
    'blanks before it',
    CHAT,
    image(' \n\thttps://a.b/c.png'),
    'messages[0].content[0].image_url.url',
  ],
  [
    'control characters before it',
    CHAT,
    image('\u0001https://a.b/c.png'),
    'messages[0].content[0].image_url.url',
  ],
  ['a file', CHAT, image('file:///etc/passwd'), 'messages[0].content[0].image_url.url'],
  ['another scheme', CHAT, image('s3://bucket/a'), 'messages[0].content[0].image_url.url'],
  ['a path', CHAT, image('/etc/passwd'), 'messages[0].content[0].image_url.url'],
  [
    'a text instead of an object',
    CHAT,
    parts({ type: 'image_url', image_url: 'http://a.b' }),
    'messages[0].content[0].image_url',
  ],
  [
    'no type, only the field',
    CHAT,
    parts({ image_url: { url: 'http://a.b' } }),
    'messages[0].content[0].image_url.url',
  ],
  [
    'another type beside the field',
    CHAT,
    parts({ type: 'text', text: 'x', image_url: { url: 'http://a.b' } }),
    'messages[0].content[0].image_url.url',
  ],
  [
    'escapes in the name of the field',
    CHAT,
    '{"messages":[{"content":[{"type":"image\\u005furl","image\\u005furl":{"u\\u0072l":"\\u0068ttp://a.b"}}]}]}',
    'messages[0].content[0].image_url.url',
  ],
  [
    'a name that occurs twice',
    CHAT,
    '{"messages":[{"content":[{"type":"text","type":"image_url","image_url":{"url":"data:,","url":"http://a.b"}}]}]}',
    'messages[0].content[0].image_url.url',
  ],
  [
    'messages twice',
    CHAT,
    '{"messages":[{"content":[{"image_url":"http://a.b"}]}],"messages":[]}',
    'messages[0].content[0].image_url',
  ],
  ['SVG', CHAT, image(`data:image/svg+xml;base64,${PNG}`), 'messages[0].content[0].image_url.url'],
  ['HTML', CHAT, image('data:text/html;base64,PGh0bWw+'), 'messages[0].content[0].image_url.url'],
  [
    'HTML that says it is an image',
    CHAT,
    image('data:image/png;base64,PGh0bWw+'),
    'messages[0].content[0].image_url.url',
  ],
  [
    'HTML without base64',
    CHAT,
    image('data:image/png,<html>'),
    'messages[0].content[0].image_url.url',
  ],
  [
    'a document as an image',
    CHAT,
    image(`data:image/png;base64,${PDF}`),
    'messages[0].content[0].image_url.url',
  ],
  ['no base64', CHAT, image('data:image/png;base64,***'), 'messages[0].content[0].image_url.url'],
  ['nothing', CHAT, image('data:image/png;base64,'), 'messages[0].content[0].image_url.url'],
  ['no comma', CHAT, image('data:image/png;base64'), 'messages[0].content[0].image_url.url'],
  [
    'an image as audio',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: PNG, format: 'wav' } }),
    'messages[0].content[0].input_audio.data',
  ],
  [
    'an address as audio',
    CHAT,
    parts({ type: 'input_audio', input_audio: { data: 'http://a.b', format: 'wav' } }),
    'messages[0].content[0].input_audio.data',
  ],
  [
    'an address of audio',
    CHAT,
    parts({ type: 'audio_url', audio_url: { url: 'http://a.b' } }),
    'messages[0].content[0].audio_url.url',
  ],
  [
    'an address of a video',
    CHAT,
    parts({ type: 'video_url', video_url: { url: 'http://a.b' } }),
    'messages[0].content[0].video_url.url',
  ],
  [
    'a list of addresses',
    CHAT,
    parts({ type: 'video', video: [`data:image/png;base64,${PNG}`, 'http://a.b'] }),
    'messages[0].content[0].video[1]',
  ],
  [
    'an image of Responses',
    '/v1/responses',
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'http://a.b' }] }] },
    'input[0].content[0].image_url',
  ],
  [
    'a file of Responses',
    '/v1/responses',
    { input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'http://a.b' }] }] },
    'input[0].content[0].file_url',
  ],
  [
    'what a tool has shown',
    '/v1/responses',
    {
      input: [
        {
          type: 'function_call_output',
          call_id: 'c',
          output: [{ type: 'input_image', image_url: 'http://a.b' }],
        },
      ],
    },
    'input[0].output[0].image_url',
  ],
  [
    'a screenshot',
    '/v1/responses',
    {
      input: [
        {
          type: 'computer_call_output',
          output: { type: 'computer_screenshot', image_url: 'http://a.b' },
        },
      ],
    },
    'input[0].output.image_url',
  ],
  [
    'an image of Messages',
    '/v1/messages',
    parts({ type: 'image', source: { type: 'url', url: 'http://a.b' } }),
    'messages[0].content[0].source.url',
  ],
  [
    'an image in the result of a tool',
    '/v1/messages',
    parts({
      type: 'tool_result',
      content: [{ type: 'image', source: { type: 'url', url: 'http://a.b' } }],
    }),
    'messages[0].content[0].content[0].source.url',
  ],
  [
    'an image in a document',
    '/v1/messages',
    parts({
      type: 'document',
      source: {
        type: 'content',
        content: [{ type: 'image', source: { type: 'url', url: 'http://a.b' } }],
      },
    }),
    'messages[0].content[0].source.content[0].source.url',
  ],
  [
    'the wrong type of Messages',
    '/v1/messages',
    parts({ type: 'image', source: { type: 'base64', media_type: 'text/html', data: PNG } }),
    'messages[0].content[0].source.data',
  ],
  [
    'an image to embed',
    '/v1/embeddings',
    parts({ type: 'image_url', image_url: { url: 'http://a.b' } }),
    'messages[0].content[0].image_url.url',
  ],
  [
    'an image to rank',
    '/v1/rerank',
    {
      query: 'q',
      documents: { content: [{ type: 'image_url', image_url: { url: 'http://a.b' } }] },
    },
    'documents.content[0].image_url.url',
  ],
  [
    'an image to edit',
    '/v1/images/edits',
    { prompt: 'http://fine.example', images: [{ image_url: 'http://a.b' }] },
    'images[0].image_url',
  ],
  [
    'a voice',
    '/v1/audio/speech',
    { input: 'http://fine.example', ref_audio: 'http://a.b' },
    'ref_audio',
  ],
]

describe('media of a body that goes on', () => {
  it.each(GOOD)('%s (%s) - goes on as it came', async (_what, path, body) => {
    const written = typeof body === 'string' ? body : JSON.stringify(body)
    expect(await check(written, { path })).toBe(written)
  })

  it.each(BAD)('%s (%s) - refused, and the field is named', async (_what, path, body, param) => {
    const { code, message, data } = await refusal(body, { path })
    expect([code, data['param']]).toEqual(['request.invalid_argument', param])
    expect(message).toContain(`\`${param}\``)
  })

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
  ])('size %s - taken up to the limit, 413 above', async (_what, of) => {
    await check(of(Buffer.alloc(998, 1)))
    await check(of(Buffer.alloc(1000, 1)))
    const { code, data } = await refusal(of(Buffer.alloc(1002, 1)))
    expect([code, data['limit']]).toEqual(['request.payload_too_large', 1000])
  })

  it('how many - up to 128', async () => {
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

  it('far behind in a long body, across any border of what is looked at - found', async () => {
    const part = '{"type":"image_url","image_url":{"url":"http://a.b"}}'
    const before = '{"messages":[{"content":[{"type":"text","text":"'
    for (let at = -60; at <= 4; at++) {
      const filler = 'x'.repeat(65_536 - before.length - 4 + at)
      const body = `${before}${filler}"},${part}]}]}`
      expect((await refusal(body)).data['param']).toBe('messages[0].content[1].image_url.url')
    }
  })

  it('content within content without end - refused instead of read again and again', async () => {
    const nested = (depth: number) =>
      `{"messages":${'[{"content":'.repeat(depth)}"image"${'}]'.repeat(depth)}}`
    await check(nested(8))
    expect((await refusal(nested(400))).message).toContain('nested')
  })
})

describe('media behind an address that is allowed', () => {
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
  ])('%s - the data takes its place, all else stays', async (path, body, becomes) => {
    expect(await check(body, { path, fetch: found })).toBe(becomes)
  })

  it('what is found there is no image - refused', async () => {
    const { message } = await refusal(image('http://a.b/text'), { fetch: found })
    expect(message).toBe(
      '`messages[0].content[0].image_url.url`: what stands at this address is not an image',
    )
  })

  it('a fault of the fetch - told with the field', async () => {
    const fails: FetchMedia = () =>
      Promise.reject(new BatonError('request.invalid_argument', 'the address answered 404'))
    const { message, data } = await refusal(image('http://a.b'), { fetch: fails })
    expect([message, data['param']]).toEqual([
      '`messages[0].content[0].image_url.url`: the address answered 404',
      'messages[0].content[0].image_url.url',
    ])
  })

  it('other schemes are refused all the same, and before anything is fetched', async () => {
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
