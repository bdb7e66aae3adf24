/**
 * Uses real servers and sockets; the test only decides which addresses count as public, and what names resolve to.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { isPublicAddress } from './public-address.ts'
import { createMediaFetcher } from './media-fetcher.ts'

const open: { close(): unknown }[] = []
afterEach(() => {
  for (const server of open.splice(0)) server.close()
})

type Answer = (req: IncomingMessage, res: ServerResponse) => void

async function serverOn(host: string, answer: Answer): Promise<{ port: number; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((req, res) => {
    asked.push(`${req.headers.host} ${req.url}`)
    answer(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  open.push({
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  })
  return { port: (server.address() as AddressInfo).port, asked }
}

const never = new AbortController().signal
const limits = { bytesMax: 100, signal: never }
/** 127.0.0.1 counts as public, every other address as private. */
const isPublic = (address: string) => address === '127.0.0.1'
const resolve = () => Promise.resolve(['127.0.0.1'])
const ofPort = (port: number) => ({ hosts: [`media.example:${port}`], isPublic, resolve })

describe('the media fetcher', () => {
  it('fetches from a listed host - all bytes', async () => {
    const { port, asked } = await serverOn('127.0.0.1', (_, res) => res.end('some bytes'))
    const fetched = await createMediaFetcher(ofPort(port))(
      `http://media.example:${port}/a?b`,
      limits,
    )
    expect(Buffer.from(fetched.base64, 'base64').toString()).toBe('some bytes')
    expect([fetched.byteLength, Buffer.from(fetched.head).toString()]).toEqual([10, 'some bytes'])
    expect(asked).toEqual([`media.example:${port} /a?b`])
  })

  it.each([
    ['another host', 'http://other.example:PORT/'],
    ['another port', 'http://media.example/'],
    ['a host below the one', 'http://a.media.example:PORT/'],
    ['another scheme', 'ftp://media.example:PORT/'],
    ['a file', 'file:///etc/passwd'],
    ['credentials', 'http://user:pass@media.example:PORT/'],
    ['no address', 'http://'],
    ['a very long one', `http://media.example:PORT/${'x'.repeat(9000)}`],
  ])('refuses %s - and sends no request', async (_what, url) => {
    const { port, asked } = await serverOn('127.0.0.1', (_, res) => res.end('x'))
    const fetch = createMediaFetcher(ofPort(port))
    await expect(fetch(url.replace('PORT', String(port)), limits)).rejects.toMatchObject({
      code: 'request.invalid_argument',
    })
    expect(asked).toEqual([])
  })

  it('a private address is refused even where every host is allowed - by name and by number', async () => {
    const { port, asked } = await serverOn('127.0.0.1', (_, res) => res.end('x'))
    const fetch = createMediaFetcher({ hosts: ['*', `*:${port}`] })
    for (const host of [
      '127.0.0.1',
      'localhost',
      '0x7f.1',
      '2130706433',
      '0',
      '[::1]',
      '[::ffff:127.0.0.1]',
    ]) {
      const refused = fetch(`http://${host}:${port}/`, limits)
      await expect(refused, host).rejects.toThrow(/not public|could not be reached/)
    }
    expect(asked).toEqual([])
  })

  it('one private address among those of a name - is refused', async () => {
    const { port, asked } = await serverOn('127.0.0.1', (_, res) => res.end('x'))
    const mixed = () => Promise.resolve(['127.0.0.1', '127.0.0.2'])
    const fetch = createMediaFetcher({ ...ofPort(port), resolve: mixed })
    await expect(fetch(`http://media.example:${port}/`, limits)).rejects.toThrow('not public')
    expect(asked).toEqual([])
  })

  it('several addresses, nothing listens at the first - the next one is tried', async () => {
    const { port } = await serverOn('127.0.0.1', (_, res) => res.end('there'))
    const fetch = createMediaFetcher({
      ...ofPort(port),
      isPublic: () => true,
      resolve: () => Promise.resolve(['127.0.0.9', '127.0.0.1']),
    })
    expect((await fetch(`http://media.example:${port}/`, limits)).byteLength).toBe(5)
  })

  it('a name that resolves differently after the check (DNS rebinding) - the checked address is used', async () => {
    const { port } = await serverOn('127.0.0.1', (_, res) => res.end('public'))
    const inside = await serverOn('127.0.0.2', (_, res) => res.end('private'))
    const answers = [['127.0.0.1'], ['127.0.0.2'], ['127.0.0.2']]
    let asked = 0
    const rebinding = () => Promise.resolve(answers[asked++] ?? [])
    const fetch = createMediaFetcher({ ...ofPort(port), resolve: rebinding })
    const { base64 } = await fetch(`http://media.example:${port}/`, limits)
    expect(Buffer.from(base64, 'base64').toString()).toBe('public')
    expect(asked).toBe(1)
    await expect(fetch(`http://media.example:${port}/`, limits)).rejects.toThrow('not public')
    expect(inside.asked).toEqual([])
  })

  it.each([
    ['a host that is not listed', (port: number) => `http://elsewhere.example:${port}/`],
    ['a private address', () => 'http://127.0.0.2/'],
    ['a file', () => 'file:///etc/passwd'],
  ])('a redirect to %s - is refused', async (_what, to) => {
    const inside = await serverOn('127.0.0.2', (_, res) => res.end('private'))
    const { port } = await serverOn('127.0.0.1', (req, res) => {
      res.writeHead(302, { location: to(Number(req.socket.localPort)) }).end()
    })
    const fetch = createMediaFetcher({
      ...ofPort(port),
      hosts: [`media.example:${port}`, '127.0.0.2'],
    })
    await expect(fetch(`http://media.example:${port}/`, limits)).rejects.toMatchObject({
      code: 'request.invalid_argument',
    })
    expect(inside.asked).toEqual([])
  })

  it('redirects to allowed addresses - are followed, three times and not four', async () => {
    const { port, asked } = await serverOn('127.0.0.1', (req, res) => {
      const left = Number((req.url ?? '').slice(1))
      if (left === 0) res.end('there')
      else res.writeHead(307, { location: `/${left - 1}` }).end()
    })
    const fetch = createMediaFetcher(ofPort(port))
    expect((await fetch(`http://media.example:${port}/3`, limits)).byteLength).toBe(5)
    expect(asked).toHaveLength(4)
    await expect(fetch(`http://media.example:${port}/4`, limits)).rejects.toThrow(
      'redirects more than 3',
    )
  })

  it.each([
    ['says how long it is', true],
    ['does not', false],
  ])(
    'content that is too long - is not read to its end, also when the server %s',
    async (_what, says) => {
      const { port } = await serverOn('127.0.0.1', (req, res) => {
        const bytes = Buffer.alloc(Number((req.url ?? '').slice(1)))
        if (says) res.setHeader('content-length', bytes.length)
        res.write(bytes)
        res.end()
      })
      const fetch = createMediaFetcher(ofPort(port))
      const of = (bytes: number) => fetch(`http://media.example:${port}/${bytes}`, limits)
      expect((await of(99)).byteLength).toBe(99)
      expect((await of(100)).byteLength).toBe(100)
      await expect(of(101)).rejects.toMatchObject({ code: 'request.payload_too_large' })
    },
  )

  it('an answer that never comes, or never ends - an error after the deadline', async () => {
    const { port } = await serverOn('127.0.0.1', (req, res) => {
      if (req.url === '/half') res.write('half')
    })
    const fetch = createMediaFetcher({ ...ofPort(port), deadlineMs: 100 })
    for (const path of ['none', 'half']) {
      const refused = fetch(`http://media.example:${port}/${path}`, limits)
      await expect(refused).rejects.toThrow(/within 100 ms|broke off/)
    }
  })

  it.each([404, 500, 204, 304])('an answer of %d - is refused with the status', async (status) => {
    const { port } = await serverOn('127.0.0.1', (_, res) => res.writeHead(status).end())
    const fetch = createMediaFetcher(ofPort(port))
    await expect(fetch(`http://media.example:${port}/`, limits)).rejects.toThrow(String(status))
  })

  it('no server, or an incomplete answer - an error that reveals nothing about the network', async () => {
    const { port } = await serverOn('127.0.0.1', (req, res) => {
      res.writeHead(200, { 'content-length': 50 })
      res.write('x', () => req.socket.destroy())
    })
    const fetch = createMediaFetcher({
      ...ofPort(port),
      hosts: [`media.example:${port}`, 'media.example:1'],
    })
    await expect(fetch(`http://media.example:${port}/`, limits)).rejects.toThrow('incomplete')
    const refused = fetch('http://media.example:1/', limits)
    await expect(refused).rejects.toThrow(/^the address could not be reached$/)
  })

  it('no more than 32 fetches at a time - the next one is refused, and there is room again afterwards', async () => {
    const waiting: ServerResponse[] = []
    const { port } = await serverOn('127.0.0.1', (_, res) => void waiting.push(res))
    const fetch = createMediaFetcher(ofPort(port))
    const of = () =>
      fetch(`http://media.example:${port}/`, { ...limits, signal: new AbortController().signal })
    const running = Array.from({ length: 32 }, of)
    await expect(of()).rejects.toMatchObject({ code: 'capacity.exhausted' })
    await expect.poll(() => waiting.length).toBe(32)
    for (const res of waiting.splice(0)) res.end('x')
    expect(await Promise.all(running)).toHaveLength(32)
    const next = of()
    await expect.poll(() => waiting.length).toBe(1)
    waiting[0]?.end('x')
    expect((await next).byteLength).toBe(1)
  })

  it('an invalid host - is an error at the start', () => {
    for (const host of ['http://x', 'a b', 'x/y', '*.*', 'x:', 'x:123456']) {
      expect(() => createMediaFetcher({ hosts: [host] }), host).toThrow('is invalid')
    }
  })

  it('*.example.com - hosts below it, not itself', async () => {
    const { port } = await serverOn('127.0.0.1', (_, res) => res.end('x'))
    const fetch = createMediaFetcher({ ...ofPort(port), hosts: [`*.example.com:${port}`] })
    expect((await fetch(`http://a.b.example.com:${port}/`, limits)).byteLength).toBe(1)
    for (const host of ['example.com', 'badexample.com', 'example.com.evil.org']) {
      await expect(fetch(`http://${host}:${port}/`, limits), host).rejects.toThrow('not allowed')
    }
  })
})

it.each([
  ['1.1.1.1', true],
  ['8.8.8.8', true],
  ['2606:4700:4700::1111', true],
  ['9.255.255.255', true],
  ['11.0.0.0', true],
  ['172.15.255.255', true],
  ['172.32.0.0', true],
  ['100.63.255.255', true],
  ['100.128.0.0', true],
  ['0.0.0.0', false],
  ['10.0.0.1', false],
  ['100.64.0.1', false],
  ['127.255.255.254', false],
  ['169.254.169.254', false],
  ['172.16.0.1', false],
  ['172.31.255.255', false],
  ['192.168.255.255', false],
  ['198.19.0.1', false],
  ['224.0.0.1', false],
  ['255.255.255.255', false],
  ['::', false],
  ['::1', false],
  ['::ffff:8.8.8.8', false],
  ['64:ff9b::7f00:1', false],
  ['fc00::1', false],
  ['fd12:3456::1', false],
  ['fe80::1', false],
  ['fe80::1%eth0', false],
  ['2001:db8::1', false],
  ['2001::1', false],
  ['2002:7f00:1::', false],
  ['ff02::1', false],
])('%s - public: %s', (address, is) => {
  expect(isPublicAddress(address)).toBe(is)
})
