import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { describe, expect, it } from 'vitest'
import { askServer } from './ask-server.ts'
import { noServer } from './no-server.ts'

const pem = (name: string): Buffer =>
  readFileSync(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url))

/** What is said of a server whose address is made from its port. */
async function saidOf(server: Server, urlOf: (port: number) => string): Promise<string> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = server.address() as AddressInfo
    await askServer(urlOf(port), '/live')
    return 'an answer'
  } catch (error) {
    return (error as Error).message
  } finally {
    server.close()
  }
}

const onHttps = (port: number): string => `https://127.0.0.1:${port}`
const onHttp = (port: number): string => `http://127.0.0.1:${port}`

describe('a server that a command cannot ask', () => {
  it('a certificate that is not trusted here - what to do about it', async () => {
    const server = createHttpsServer({ cert: pem('stranger.pem'), key: pem('stranger.key') })
    expect(await saidOf(server, onHttps)).toMatch(/certificate is not signed .*NODE_EXTRA_CA_CERTS/)
  })

  it('HTTPS where HTTP is spoken', async () => {
    expect(await saidOf(createHttpServer(), onHttps)).toMatch(/not speak HTTPS.*http:\/\/127/)
  })

  it('HTTP where HTTPS is spoken', async () => {
    const server = createHttpsServer({ cert: pem('stranger.pem'), key: pem('stranger.key') })
    expect(await saidOf(server, onHttp)).toMatch(/closed the connection.*is it HTTPS/)
  })

  it('something else answers', async () => {
    const server = createHttpServer((_, reply) => void reply.end('<html>'))
    expect(await saidOf(server, onHttp)).toMatch(/is no Baton server/)
  })

  it('nobody listens there', async () => {
    await expect(askServer('http://127.0.0.1:1', '/live')).rejects.toMatchObject({
      code: 'transport.cannot_connect',
      message: expect.stringMatching(/^no server at .*'baton serve'/) as unknown,
    })
  })

  it.each([
    ['ENOTFOUND', /llm\.example is not a name/],
    ['CERT_HAS_EXPIRED', /has expired/],
    ['CERT_NOT_YET_VALID', /compare the clocks/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', /not made for llm\.example/],
  ])('%s below two other errors', (code, expected) => {
    const cause = Object.assign(new Error('of the system'), { code })
    const error = new TypeError('fetch failed', { cause: new Error('of TLS', { cause }) })
    expect(noServer('https://llm.example:8443', error).message).toMatch(expected)
  })

  it('a deadline that is over', () => {
    const error = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    expect(noServer('http://llm.example', error).message).toMatch(/does not answer in time/)
  })
})
