/** Forward mode: large bodies share memory one after the other; every engine gets exactly the bytes of its client. */
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { expect, it } from 'vitest'
import { until } from '../until.ts'
import { ask } from './gateway-kit.ts'
import {
  CHAT,
  chunk,
  closeAfterwards,
  engine,
  gatewayOf,
  STREAM_HEAD,
  WHOLE,
} from './faulty-engines.ts'
import { jsonResponse } from '../upstream/transcripts.ts'

/** Bodies of different lengths without a common part longer than a few words. */
function bodyOf(number: number, kilobytes = 200): string {
  const content = `${number}, `.repeat(kilobytes * 256 + number)
  return JSON.stringify({ model: 'm', number, messages: [{ role: 'user', content }] })
}

interface Held {
  readonly socket: Socket
  readonly pieces: Buffer[]
}

const textOf = ({ pieces }: Held): string =>
  Buffer.concat(pieces)
    .toString('latin1')
    .replace(/^[^]*?\r\n\r\n/, '')

function isWhole(held: Held): boolean {
  const length = /content-length: (\d+)/i.exec(held.pieces[0]?.toString('latin1') ?? '')?.[1]
  return textOf(held).length === Number(length)
}

it('many large requests, several at a time - each engine gets the bytes of each client', async () => {
  const engines = [await engine(() => WHOLE), await engine(() => WHOLE)]
  const gateway = await gatewayOf(engines)
  const sent = Array.from({ length: 24 }, (_, number) => bodyOf(number))
  for (let at = 0; at < sent.length; at += 4) {
    const four = sent.slice(at, at + 4)
    const answers = await Promise.all(four.map((body) => ask(gateway.port, CHAT, body)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  }
  const arrived = engines.flatMap(({ asked }) => asked.map(({ body }) => body))
  expect(arrived.toSorted().map((body, at) => body === sent.toSorted()[at])).toEqual(
    sent.map(() => true),
  )
})

it('large requests with a field that is removed - each engine gets the bytes of each client without it', async () => {
  const server = await engine(() => WHOLE)
  const gateway = await gatewayOf([server])
  for (let number = 0; number < 12; number++) {
    const body = bodyOf(number)
    const withField = `{"rid":"x",${body.slice(1)}`
    expect((await ask(gateway.port, CHAT, withField)).status).toBe(200)
    expect(server.asked.at(-1)?.body === body).toBe(true)
  }
})

it('an engine that fails - the other one gets the same bytes', async () => {
  // Both are idle, so that either may be asked first: that one fails.
  let failing: number | null = null
  const answerOf = (at: number) => () => {
    failing ??= at
    return failing === at ? jsonResponse(503, { error: { message: 'busy' } }) : WHOLE
  }
  const engines = [await engine(answerOf(0)), await engine(answerOf(1))]
  const gateway = await gatewayOf(engines)
  for (let number = 0; number < 6; number++) {
    const body = bodyOf(number)
    expect((await ask(gateway.port, CHAT, body)).status).toBe(200)
    expect(engines[1 - (failing ?? 0)]?.asked.at(-1)?.body === body).toBe(true)
  }
  expect(engines[failing ?? 0]?.asked[0]?.body === bodyOf(0)).toBe(true)
})

it('an engine that answers before it has read the request - gets its bytes although others follow', async () => {
  const held: Held[] = []
  const models = jsonResponse(200, { data: [{ id: 'm', object: 'model' }] })
  const server = createServer((socket) => {
    const one = { socket, pieces: [] as Buffer[] }
    socket.on('error', () => undefined)
    socket.on('data', (bytes: Buffer) => {
      if (one.pieces.length === 0 && bytes.toString('latin1', 0, 3) === 'GET') {
        socket.end(models)
        return
      }
      one.pieces.push(Buffer.from(bytes))
      if (one.pieces.length > 1) return
      held.push(one)
      socket.pause()
      socket.write(STREAM_HEAD + chunk('data: {"choices":[{"delta":{"content":"a"}}]}\n\n'))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  closeAfterwards({ close: () => (server.close(), held.forEach(({ socket }) => socket.destroy())) })
  const gateway = await gatewayOf([
    { url: `openai+http://127.0.0.1:${(server.address() as AddressInfo).port}` },
  ])
  // More than a connection's buffers usually hold.
  const bodies = Array.from({ length: 4 }, (_, number) => bodyOf(number, 1300))
  const answers = bodies.map((body) => ask(gateway.port, CHAT, body))
  await until('all were answered', () => Promise.resolve(held.length === bodies.length))
  for (const { socket } of held) socket.resume()
  await until('all have arrived', () => Promise.resolve(held.every(isWhole)))
  // After its answer a connection may be used for a health check before its end is noticed.
  const arrived = held.map(textOf)
  for (const { socket } of held) socket.end(`${chunk('data: [DONE]\n\n')}0\r\n\r\n`)
  await Promise.all(answers)
  expect(bodies.every((body) => arrived.includes(body))).toBe(true)
})
