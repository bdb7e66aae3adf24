import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'

/** SECURITY.md: what a web page of another origin may do at a port without keys. */
describe('web pages of other origins, without keys', () => {
  let server: RunningServer
  beforeAll(async () => {
    server = await startServer(['--engine', 'sim', '--aggregated', '1', '--in-process'])
  })
  afterAll(() => server.stop())

  /** As a page sends a Blob: without a content type browsers send no preflight request. */
  function post(path: string, body: string, origin: string): Promise<[number, string]> {
    return new Promise((resolve, reject) => {
      const sent = request(server.url + path, { method: 'POST', headers: { origin } }, (reply) => {
        let text = ''
        reply.on('data', (bytes: Buffer) => (text += bytes.toString()))
        reply.on('end', () => resolve([reply.statusCode ?? 0, text]))
      })
      sent.on('error', reject)
      sent.end(body)
    })
  }

  it.each([
    ['/clear_kv_blocks', ''],
    ['/busy_threshold', '{}'],
    ['/admin/drain', '{"worker_id":"1"}'],
    ['/v1/completions', '{"prompt":"a","max_tokens":1}'],
  ])('POST %s - is refused before it has any effect', async (path, body) => {
    for (const origin of ['https://evil.example', 'null']) {
      expect(await post(path, body, origin)).toEqual([
        403,
        expect.stringContaining('--cors-origin'),
      ])
    }
    expect((await post(path, body, server.url))[0]).not.toBe(403)
  })
})
