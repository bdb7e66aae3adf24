import { describe, expect, it } from 'vitest'
import { readForwardBody } from './forward-body.ts'

const CHAT = '/v1/chat/completions'
const bytesOf = (text: string) => new TextEncoder().encode(text)
const imageOf = (url: string) => ({
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
})

describe('tokens for routing a request with media', () => {
  const tokens = (url: string) =>
    [
      ...readForwardBody(
        bytesOf(JSON.stringify(imageOf(url))),
        'application/json',
        CHAT,
      ).routingTokens().tokenIds,
    ].join()
  const long = `data:image/png;base64,${'ABCD'.repeat(5000)}`

  it('the same image - the same tokens, about as many as for a small image', () => {
    expect(tokens(long)).toBe(tokens(long))
    expect(tokens(long).split(',').length).toBeLessThan(400)
  })

  it('a single different character, anywhere - other tokens', () => {
    const all = new Set([tokens(long)])
    for (const at of [30, 3333, 10_001, long.length - 1]) {
      all.add(tokens(`${long.slice(0, at)}x${long.slice(at + 1)}`))
    }
    expect(all.size).toBe(5)
  })

  describe.each([
    ['chat', CHAT, (data: string) => imageOf(`data:image/png;base64,${data}`)],
    [
      'Messages',
      '/v1/messages',
      (data: string) => ({
        messages: [
          {
            role: 'user',
            content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }],
          },
        ],
      }),
    ],
    [
      'Responses',
      '/v1/responses',
      (data: string) => ({
        input: [
          {
            role: 'user',
            content: [{ type: 'input_image', image_url: `data:image/png;base64,${data}` }],
          },
        ],
      }),
    ],
  ])('small images in %s', (_name, path, bodyOf) => {
    // The first bytes of every PNG file.
    const head = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mN'
    const ids = (data: string) => [
      ...readForwardBody(
        bytesOf(JSON.stringify(bodyOf(data))),
        'application/json',
        path,
      ).routingTokens().tokenIds,
    ]

    it('two images have no block in common, the same image has all', () => {
      const [one, same, other] = [ids(`${head}kAAQ==`), ids(`${head}kAAQ==`), ids(`${head}kBBQ==`)]
      const differs = one.findIndex((id, at) => id !== other[at])
      expect(differs).toBeLessThan(16)
      expect(one).toEqual(same)
    })

    it('text after an image - still counts as text', () => {
      const [one, other] = [ids(`${head}kAAQ==`), ids(`${head}kBBQ==`)]
      expect(one.slice(-1)).toEqual(other.slice(-1))
    })
  })

  it('two addresses on one host - have no block in common', () => {
    const at = (name: string) =>
      tokens(`https://images.example.com/a/long/folder/of/many/pictures/of/one/day/${name}.png`)
    const [one, other] = [at('a').split(','), at('b').split(',')]
    expect(one.findIndex((id, place) => id !== other[place])).toBeLessThan(16)
  })

  it('estimated tokens are marked as such; a prompt of ids is exact', () => {
    const estimated = (body: object) =>
      readForwardBody(
        bytesOf(JSON.stringify(body)),
        'application/json',
        '/v1/completions',
      ).routingTokens().isEstimated
    expect([estimated({ prompt: 'x' }), estimated({ prompt: [1, 2] })]).toEqual([true, false])
  })
})
