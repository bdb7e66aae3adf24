import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { askLive } from './live-request.ts'

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

interface Asked {
  readonly stream_options: Readonly<Record<string, unknown>>
}

/** Starts a completion server of another project that sends these events, or refuses the request. */
async function serverThat(
  answer: (asked: Asked) => { readonly status: number; readonly body: string },
): Promise<{ readonly url: string; readonly asked: Asked[] }> {
  const asked: Asked[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (bytes: Buffer) => (text += bytes.toString()))
    request.on('end', () => {
      asked.push(JSON.parse(text) as Asked)
      const { status, body } = answer(asked.at(-1)!)
      response.writeHead(status, { 'content-type': 'text/event-stream' }).end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

function eventsOf(...events: readonly { text: string; total?: number }[]): string {
  return events
    .map(({ text, total }) => ({
      choices: [{ text }],
      ...(total === undefined ? {} : { usage: { completion_tokens: total } }),
    }))
    .map((event) => `data: ${JSON.stringify(event)}\n\n`)
    .join('')
}

const DONE = 'data: [DONE]\n\n'

describe('askLive - how a request ends', () => {
  it('a server that drops a reused connection without an answer - the request is sent again', async () => {
    let connections = 0
    const body = `${eventsOf({ text: 'a' })}${DONE}`
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      const isFirst = ++connections === 1
      socket.once('data', () => {
        if (isFirst) socket.end()
        else
          socket.end(
            `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
          )
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closing.push(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const reply = await askLive({ url, model: 'm' }, { prompt: 'p', maxTokens: 1 })
    expect(reply.events).toBe(1)
    expect(connections).toBe(2)
  })

  it('a server that drops every connection - the failure is reported', async () => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => socket.end())
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closing.push(() => server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const asked = askLive({ url, model: 'm' }, { prompt: 'p', maxTokens: 1 })
    await expect(asked).rejects.toThrow(/UND_ERR_SOCKET|ECONNRESET/)
  })

  it('an error of fetch itself - is reported in its own words', async () => {
    const asked = askLive({ url: 'http://127.0.0.1:9', model: 'm' }, { prompt: 'p', maxTokens: 1 })
    await expect(asked).rejects.toThrow('(bad port)')
  })

  it.each([
    ['half of an answer', eventsOf({ text: 'a' })],
    ['a page instead of events', '<html>hello</html>'],
    ['nothing', ''],
  ])('%s - is a failure', async (_, body) => {
    const { url } = await serverThat(() => ({ status: 200, body }))
    const asked = askLive({ url, model: 'm' }, { prompt: 'p', maxTokens: 3 })
    await expect(asked).rejects.toThrow('ended without [DONE]')
  })
})

describe('askLive - events of other servers', () => {
  it('an event that is not JSON - is named', async () => {
    const { url } = await serverThat(() => ({ status: 200, body: 'data: oops, a proxy\n\n' }))
    const asked = askLive({ url, model: 'm' }, { prompt: 'p', maxTokens: 3 })
    await expect(asked).rejects.toThrow('not JSON: oops, a proxy')
  })

  it('an error in the middle of the stream - is the reason of the failure', async () => {
    const error = 'data: {"error":{"message":"out of memory","code":500}}\n\n'
    const body = eventsOf({ text: 'a' }) + error + DONE
    const { url } = await serverThat(() => ({ status: 200, body }))
    const asked = askLive({ url, model: 'm' }, { prompt: 'p', maxTokens: 3 })
    await expect(asked).rejects.toThrow('out of memory')
  })
})

describe('askLive - number of tokens of an event', () => {
  it('a server that reports usage in every event - tokens of each event, also after one without text', async () => {
    const body = eventsOf(
      { text: 'a', total: 1 },
      { text: 'bc', total: 3 },
      { text: '', total: 4 },
      { text: 'd', total: 5 },
    )
    const { url } = await serverThat(() => ({ status: 200, body: `${body}${DONE}` }))
    const tokens: number[] = []
    const request = { prompt: 'p', maxTokens: 5, onText: (_: number, n: number) => tokens.push(n) }
    const reply = await askLive({ url, model: 'm' }, request)
    expect(tokens).toEqual([1, 2, 2])
    expect(reply.completionTokens).toBe(5)
  })

  it('a server that refuses continuous usage - is asked once, then each event counts as one token', async () => {
    const { url, asked } = await serverThat(({ stream_options }) =>
      'continuous_usage_stats' in stream_options
        ? { status: 400, body: '{"error":{"message":"unknown field continuous_usage_stats"}}' }
        : {
            status: 200,
            body: `${eventsOf({ text: 'a' }, { text: 'b' }, { text: '', total: 2 })}${DONE}`,
          },
    )
    for (let i = 0; i < 2; i++) {
      const tokens: number[] = []
      const request = {
        prompt: 'p',
        maxTokens: 2,
        onText: (_: number, n: number) => tokens.push(n),
      }
      await askLive({ url, model: 'm' }, request)
      expect(tokens).toEqual([1, 1])
    }
    expect(asked).toHaveLength(3)
  })
})
