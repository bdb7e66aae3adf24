import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { BatonsInTurn } from './in-turn.ts'
import { startServer } from './running-server.ts'
import { until } from './until.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

const folder = mkdtempSync(join(tmpdir(), 'baton-https-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const fixture = (name: string): string =>
  fileURLToPath(new URL(`fixtures/tls/${name}`, import.meta.url))
const cert = join(folder, 'cert.pem')
const key = join(folder, 'key.pem')

function use(name: 'fleet' | 'stranger'): void {
  copyFileSync(fixture(`${name}.pem`), cert)
  copyFileSync(fixture(`${name}.key`), key)
}

interface Answer {
  readonly status: number
  readonly text: string
  readonly fingerprint: string
}

/** On its own connection, without verifying the certificate. */
function ask(port: number, path: string, body?: unknown): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST'
    const headers = { 'content-type': 'application/json' }
    const options = { host: '127.0.0.1', port, path, method, headers, agent: false }
    const sent = request({ ...options, rejectUnauthorized: false }, (reply) => {
      const { fingerprint256: fingerprint } = (reply.socket as TLSSocket).getPeerCertificate()
      let text = ''
      reply.on('data', (bytes: Buffer) => (text += bytes.toString()))
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, text, fingerprint }))
    })
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const serve = ['--engine', 'sim', '--in-process']

describe('HTTPS', () => {
  it('whole and streamed replies - work, also after the certificate was replaced while the server runs', async () => {
    use('fleet')
    const server = await startServer([...serve, '--http-tls-cert', cert, '--http-tls-key', key])
    const port = Number(/https:\/\/127\.0\.0\.1:(\d+)/.exec(server.printed())?.[1])
    try {
      const before = await ask(port, '/v1/models')
      expect([before.status, before.text]).toEqual([200, expect.stringContaining('storyteller')])
      const messages = [{ role: 'user', content: 'a ü 🎉' }]
      const streamed = await ask(port, '/v1/chat/completions', {
        messages,
        stream: true,
        max_tokens: 20,
      })
      expect(streamed.text.match(/^data: /gm)?.length).toBeGreaterThan(10)
      expect(streamed.text).toContain('data: [DONE]')

      // Replacing only one of the two files changes nothing.
      copyFileSync(fixture('stranger.pem'), cert)
      await until('the fault is logged', () =>
        server.printed().includes('the previous one stays in use'),
      )
      expect((await ask(port, '/live')).fingerprint).toBe(before.fingerprint)
      use('stranger')
      await until(
        'the new certificate is shown',
        async () => (await ask(port, '/live')).fingerprint !== before.fingerprint,
      )
      await new Promise<void>((resolve) => {
        const plain = connect(port, '127.0.0.1', () => plain.write('GET / HTTP/1.1\r\n\r\n'))
        plain.on('error', () => undefined)
        plain.on('close', () => resolve())
        plain.resume()
      })
      expect((await ask(port, '/live')).status).toBe(200)

      if (process.platform !== 'win32') {
        rmSync(cert)
        execFileSync('mkfifo', [cert])
        await until('the pipe is logged', () =>
          server.printed().includes('nothing was written for 0 s'),
        )
      }
    } finally {
      rmSync(cert, { force: true })
      await server.stop()
    }
  })

  it.each([
    ['a missing key', ['--http-tls-cert', fixture('fleet.pem')], '--http-tls-key is missing'],
    [
      'the key of another',
      ['--http-tls-cert', fixture('fleet.pem'), '--http-tls-key', fixture('stranger.key')],
      '--http-tls-key: the key does not belong to the certificate of --http-tls-cert',
    ],
    ['a page that is no origin', ['--cors-origin', 'https://a/b'], '--cors-origin: https://a/b'],
  ])('%s - is reported in one sentence', async (_, args, sentence) => {
    const { exitCode, printed } = await batons.run(['serve', ...serve, '--port', '0', ...args])
    expect([exitCode, printed]).toEqual([2, expect.stringContaining(sentence)])
    expect(printed).toMatch(/^baton: [^\n]+\n$/)
  })
})
