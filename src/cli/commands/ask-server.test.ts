import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { describe, expect, it } from 'vitest'
import { freePort } from '../../../test/free-port.ts'
import { askServer, serverUrl } from './ask-server.ts'
import { noServer } from './no-server.ts'

const pem = (name: string): Buffer =>
  readFileSync(new URL(`../../../test/fixtures/tls/${name}`, import.meta.url))

/** The error message for a server whose address is made from its port. */
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

describe('the address of a server', () => {
  it.each([
    'http://127.0.0.1:8000',
    'http://127.0.0.1:8000/',
    'http://127.0.0.1:8000/v1',
    'http://127.0.0.1:8000/v1/',
  ])('%s - is the same server in each of its forms', (given) => {
    expect(serverUrl(given)).toBe('http://127.0.0.1:8000')
  })

  it('a path before /v1 - is kept', () => {
    expect(serverUrl('https://proxy.example/models/v1')).toBe('https://proxy.example/models')
  })

  it.each(['127.0.0.1:8000', 'ftp://x', ''])('%j - is refused', (given) => {
    expect(() => serverUrl(given)).toThrow('expected the address of a server')
  })
})

describe('messages for a server that cannot be asked', () => {
  it('a certificate that is not trusted here - the message says what to do', async () => {
    const server = createHttpsServer({ cert: pem('stranger.pem'), key: pem('stranger.key') })
    expect(await saidOf(server, onHttps)).toMatch(/certificate is not signed .*NODE_EXTRA_CA_CERTS/)
  })

  it('HTTPS is used, the server speaks HTTP', async () => {
    expect(await saidOf(createHttpServer(), onHttps)).toMatch(/not speak HTTPS.*http:\/\/127/)
  })

  it('HTTP is used, the server speaks HTTPS', async () => {
    const server = createHttpsServer({ cert: pem('stranger.pem'), key: pem('stranger.key') })
    expect(await saidOf(server, onHttp)).toMatch(/closed the connection.*try https:/)
  })

  it('something other than Baton answers', async () => {
    const server = createHttpServer((_, reply) => void reply.end('<html>'))
    expect(await saidOf(server, onHttp)).toMatch(/is not a Baton server/)
  })

  it('nothing listens at the address', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    await expect(askServer(url, '/live')).rejects.toMatchObject({
      code: 'transport.cannot_connect',
      message: expect.stringMatching(/^no server at .*'baton serve'/) as unknown,
    })
  })

  it.each([
    ['ENOTFOUND', /llm\.example cannot be resolved/],
    ['CERT_HAS_EXPIRED', /has expired/],
    ['CERT_NOT_YET_VALID', /compare the clocks/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', /not valid for llm\.example/],
  ])('%s as the cause of the cause of an error', (code, expected) => {
    const cause = Object.assign(new Error('of the system'), { code })
    const error = new TypeError('fetch failed', { cause: new Error('of TLS', { cause }) })
    expect(noServer('https://llm.example:8443', error).message).toMatch(expected)
  })

  it('a port that no client may use - does not say that nothing is there', async () => {
    const message = await askServer('http://127.0.0.1:1', '/live').catch(String)
    expect(message).toMatch(/: no answer from http:\/\/127\.0\.0\.1:1: port 1 .* use another/)
  })

  it('a failure that is not known - is named', () => {
    const error = new TypeError('fetch failed', { cause: new Error('something odd') })
    expect(noServer('http://llm.example', error).message).toMatch(/^no answer .*\(something odd\):/)
  })

  it.each([
    [Object.assign(new Error('connect EMFILE'), { code: 'EMFILE' }), /^connect EMFILE;.*ulimit -n/],
    [new RangeError('WebAssembly.Memory(): could not allocate memory'), /^not enough .*ulimit -v/],
  ])('a limit of this process as the cause: %s - is named, not the server', (cause, expected) => {
    const error = new TypeError('fetch failed', { cause })
    expect(noServer('http://llm.example', error).message).toMatch(expected)
  })

  it('a deadline that has passed', () => {
    const error = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    expect(noServer('http://llm.example', error).message).toMatch(/did not answer in time/)
  })
})
