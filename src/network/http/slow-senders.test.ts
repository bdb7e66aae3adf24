import { connect } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { HttpServer } from './http-server.ts'

/** Sends the text and nothing more; gives back what comes until the connection ends. */
async function sendOnly(text: string): Promise<string> {
  const server = await HttpServer.listen({
    host: '127.0.0.1',
    port: 0,
    open: () => ({
      bodyBytesMax: 1000,
      answer: () => Promise.resolve({ status: 200, headers: {}, body: 'whole' }),
      refuse: ({ row }) => ({ status: row.httpStatus, headers: {}, body: '' }),
    }),
    onFault: () => undefined,
    slowSenders: { headMs: 100, requestMs: 200, checkMs: 20 },
  })
  onTestFinished(() => server.close(0).then(() => undefined))
  return await new Promise((resolve) => {
    const socket = connect(server.port, '127.0.0.1', () => socket.write(text))
    let got = ''
    socket.on('data', (bytes: Buffer) => {
      got += bytes.toString()
      if (got.includes('whole')) socket.end()
    })
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(got))
  })
}

describe('slow senders', () => {
  it('a head that does not end - 408 and cut off', async () => {
    expect(await sendOnly('POST / HTTP/1.1\r\nHost: a\r\nx-slow: ')).toMatch(/^HTTP\/1\.1 408/)
  })

  it('a body that does not end - 408 and cut off', async () => {
    const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n'
    expect(await sendOnly(`${head}1234`)).toMatch(/^HTTP\/1\.1 408/)
  })

  it('a whole request - is answered', async () => {
    const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n'
    expect(await sendOnly(`${head}1234`)).toMatch(/^HTTP\/1\.1 200/)
  })
})
