import { describe, expect, it } from 'vitest'
import { readForwardBody } from './forward-body.ts'

const CHAT = '/v1/chat/completions'
const bytesOf = (text: string) => new TextEncoder().encode(text)
const imageOf = (url: string) => ({
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
})

describe('what a request with media is routed by', () => {
  const tokens = (url: string) =>
    [
      ...readForwardBody(
        bytesOf(JSON.stringify(imageOf(url))),
        'application/json',
        CHAT,
      ).routingTokens().tokenIds,
    ].join()
  const long = `data:image/png;base64,${'ABCD'.repeat(5000)}`

  it('the same image - the same tokens, about as many as a small image has', () => {
    expect(tokens(long)).toBe(tokens(long))
    expect(tokens(long).split(',').length).toBeLessThan(400)
  })

  it('one character of it differs, wherever - other tokens', () => {
    const all = new Set([tokens(long)])
    for (const at of [30, 3333, 10_001, long.length - 1]) {
      all.add(tokens(`${long.slice(0, at)}x${long.slice(at + 1)}`))
    }
    expect(all.size).toBe(5)
  })

  it('they are no tokens of an engine, a prompt of ids is', () => {
    const estimated = (body: object) =>
      readForwardBody(
        bytesOf(JSON.stringify(body)),
        'application/json',
        '/v1/completions',
      ).routingTokens().isEstimated
    expect([estimated({ prompt: 'x' }), estimated({ prompt: [1, 2] })]).toEqual([true, false])
  })
})
