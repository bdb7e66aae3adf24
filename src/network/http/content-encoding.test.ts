import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { HttpServer } from './http-server.ts'

const LIMIT = 1000

async function post(body: Uint8Array, encoding: string): Promise<{ status: number; text: string }> {
  const server = await HttpServer.listen({
    host: '127.0.0.1',
    port: 0,
    open: (head) => ({
      bodyBytesMax: LIMIT,
      answer: async (plain) => ({
        status: 200,
        headers: {},
        body: `${plain.length} ${head.headers['content-encoding']} ${new TextDecoder().decode(plain.slice(0, 5))}`,
      }),
      refuse: ({ code, row, message }) => ({
        status: row.httpStatus,
        headers: {},
        body: `${code}: ${message}`,
      }),
    }),
    onFault: () => undefined,
  })
  onTestFinished(() => server.close(0).then(() => undefined))
  const reply = await fetch(`http://127.0.0.1:${server.port}/`, {
    method: 'POST',
    headers: { 'content-encoding': encoding },
    body,
  })
  return { status: reply.status, text: await reply.text() }
}

const plain = (length: number): Buffer => Buffer.from('hello'.padEnd(length, ' '))

describe('compressed bodies', () => {
  it.each([
    ['gzip', gzipSync],
    ['X-GZIP', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['identity', (bytes: Buffer) => bytes],
  ] as const)('%s - is decoded, and passed on as plain bytes', async (encoding, encode) => {
    const { status, text } = await post(encode(plain(300)), encoding)
    expect({ status, text }).toEqual({ status: 200, text: '300 undefined hello' })
  })

  it.each([
    [LIMIT - 1, 200],
    [LIMIT, 200],
    [LIMIT + 1, 413],
    [50_000_000, 413],
  ])('%i bytes after decoding - %i', async (length, status) => {
    expect((await post(gzipSync(plain(length)), 'gzip')).status).toBe(status)
  })

  it('an unknown encoding - 415 that names it', async () => {
    const reply = await post(plain(10), 'zstd')
    expect(reply.status).toBe(415)
    expect(reply.text).toContain('zstd')
    expect((await post(plain(10), 'gzip, br')).status).toBe(415)
  })

  it.each(['gzip', 'deflate', 'br'])(
    'bytes that are no valid %s, or are incomplete - 400',
    async (encoding) => {
      expect((await post(plain(10), encoding)).status).toBe(400)
      const whole =
        { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }[encoding] ?? gzipSync
      expect((await post(whole(plain(300)).subarray(0, 8), encoding)).status).toBe(400)
    },
  )
})
