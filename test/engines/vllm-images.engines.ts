/** Baton in front of real vLLM servers that take images. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { crc32, deflateSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { randomInt, seededRandom } from '../../src/base/index.ts'
import type { RunningServer } from '../running-server.ts'
import { JSON_HEADERS, modelsOf } from './asking.ts'
import { startBatonServer } from './process-logs.ts'
import { metricOf } from './python-engine.ts'
import { startVllmWithImages, vllmFolder } from './real-vllm.ts'
import type { RealVllm } from './real-vllm.ts'

const WORDS =
  'Once upon a time there was a little dog who wanted to see the world and ran. '.repeat(4)

/** Base64 of an image of 64 by 64 pixels that depend on the seed: about 16 kB, like a small picture. */
function png(seed: number): string {
  const random = seededRandom(seed)
  const chunk = (name: string, data: Buffer): Buffer => {
    const named = Buffer.concat([Buffer.from(name), data])
    const bytes = Buffer.alloc(named.length + 8)
    bytes.writeUInt32BE(data.length, 0)
    named.copy(bytes, 4)
    bytes.writeUInt32BE(crc32(named), named.length + 4)
    return bytes
  }
  const header = Buffer.from([0, 0, 0, 64, 0, 0, 0, 64, 8, 2, 0, 0, 0])
  const row = (): Buffer =>
    Buffer.from([0, ...Array.from({ length: 3 * 64 }, () => randomInt(random, 256))])
  const pixels = deflateSync(Buffer.concat(Array.from({ length: 64 }, row)))
  const magic = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10])
  const chunks = [chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))]
  return Buffer.concat([magic, ...chunks]).toString('base64')
}

interface Answer {
  readonly status: number
  readonly text: string
}

async function post(url: string, route: string, body: object): Promise<Answer> {
  const response = await fetch(url + route, {
    method: 'POST',
    headers: JSON_HEADERS,
    body: JSON.stringify({ model: 'storyteller', temperature: 0, ...body }),
  })
  return { status: response.status, text: await response.text() }
}

const chatOf = (image: string, more: object = {}): object => ({
  max_tokens: 6,
  messages: [
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } },
        { type: 'text', text: WORDS },
      ],
    },
  ],
  ...more,
})

interface Usage {
  readonly prompt_tokens: number
  readonly prompt_tokens_details: {
    readonly cached_tokens: number
    readonly multimodal_tokens: { readonly image: number }
  }
}

async function usageOf(url: string, image: string): Promise<Usage> {
  const { status, text } = await post(url, '/v1/chat/completions', chatOf(image))
  expect(status, text).toBe(200)
  return (JSON.parse(text) as { readonly usage: Usage }).usage
}

const textIn = ({ text }: Answer): string | undefined =>
  /"text":"((?:[^"\\]|\\.)+)"/.exec(text)?.[1]

describe.skipIf(vllmFolder() === null)('vLLM with images', () => {
  let folder: string
  let a: RealVllm
  let b: RealVllm
  let server: RunningServer
  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'baton-images-'))
    // One after the other, because a start uses all CPU and memory.
    a = await startVllmWithImages(folder)
    b = await startVllmWithImages(folder)
    server = await startBatonServer(['--upstream', `${a.url},${b.url}`])
    for (const { url } of [a, b]) await usageOf(url, png(200))
  })
  afterAll(async () => {
    await server?.stop()
    await a?.kill()
    await b?.kill()
    rmSync(folder, { recursive: true, force: true })
  })

  it('an image - reaches the engine, and a repeated one the server that has it cached', async () => {
    const images = Array.from({ length: 6 }, (_, i) => png(i))
    const rows: string[] = []
    for (const [nth, image] of images.entries()) {
      const first = await usageOf(server.url, image)
      expect(first.prompt_tokens_details.multimodal_tokens.image).toBe(16)
      expect(first.prompt_tokens_details.cached_tokens).toBe(0)
      const second = await usageOf(server.url, image)
      rows.push(`${nth}: ${second.prompt_tokens_details.cached_tokens}`)
    }
    for (const image of images) {
      const { prompt_tokens: all, prompt_tokens_details: of } = await usageOf(server.url, image)
      expect(of.cached_tokens).toBe(Math.floor((all - 1) / 32) * 32)
    }
    const served = await Promise.all(
      [a, b].map((each) => metricOf(each, 'vllm:request_success_total')),
    )
    console.log(
      `images, cached the second time: ${rows.join(', ')}; requests of each: ${served.join(', ')}`,
    )
    expect(Math.min(...served)).toBeGreaterThan(3)
    expect((await modelsOf(server))[0].warnings).toEqual([])
  })

  it.each([
    ['/v1/chat/completions', chatOf(png(100), { stream: true })],
    [
      '/v1/responses',
      {
        max_output_tokens: 6,
        input: [
          {
            role: 'user',
            content: [
              {
                type: 'input_image',
                detail: 'auto',
                image_url: `data:image/png;base64,${png(100)}`,
              },
              { type: 'input_text', text: WORDS },
            ],
          },
        ],
      },
    ],
    [
      '/v1/messages',
      {
        max_tokens: 6,
        messages: [
          {
            role: 'user',
            content: [
              {
                type: 'image',
                source: { type: 'base64', media_type: 'image/png', data: png(100) },
              },
              { type: 'text', text: WORDS },
            ],
          },
        ],
      },
    ],
  ])('%s - same answer as from the server itself', async (route, body) => {
    const [expected, seen] = [await post(a.url, route, body), await post(server.url, route, body)]
    expect(seen.status, seen.text).toBe(200)
    const words = (answer: Answer): string | undefined =>
      route.endsWith('completions')
        ? [...answer.text.matchAll(/"content":"([^"]*)"/g)].map(([, piece]) => piece).join('')
        : textIn(answer)
    expect(words(expected)).toMatch(/\w/)
    expect(words(seen)).toBe(words(expected))
  })

  it('image URLs, and data of another type - are refused before they reach an engine', async () => {
    const before = await Promise.all(
      [a, b].map((each) => metricOf(each, 'vllm:request_success_total')),
    )
    const of = (url: string): object => ({
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    })
    for (const url of [
      'http://127.0.0.1:1/secret.png',
      'file:///etc/passwd',
      `data:image/svg+xml;base64,${Buffer.from('<svg/>').toString('base64')}`,
    ]) {
      const { status, text } = await post(server.url, '/v1/chat/completions', of(url))
      expect(status, text).toBe(400)
      expect(text).toContain('messages[0].content[0].image_url.url')
    }
    expect(
      await Promise.all([a, b].map((each) => metricOf(each, 'vllm:request_success_total'))),
    ).toEqual(before)
  })
})
