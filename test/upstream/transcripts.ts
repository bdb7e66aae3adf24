/** Raw recordings of real engines (`vectors/engines`), and servers that replay them byte for byte. */
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(new URL('../vectors/engines/', import.meta.url))

export interface Transcript {
  readonly engine: string
  readonly name: string
  readonly status: number | null
  readonly note: string
}

/** All responses of an engine that its index lists. */
export function transcriptsOf(engine: string): readonly Transcript[] {
  const there = new Set(readdirSync(`${FOLDER}${engine}`))
  return readFileSync(`${FOLDER}${engine}/INDEX.tsv`, 'utf8')
    .split('\n')
    .slice(1)
    .map((line) => line.split('\t'))
    .filter(([name = '']) => there.has(`${name}.res`))
    .map(([name = '', , status = '', , , , , note = '']) => ({
      engine,
      name,
      status: /^\d+$/.test(status) ? Number(status) : null,
      note,
    }))
}

export const ENGINES = [
  'llama-server',
  'vllm',
  'vllm-nixl-pd',
  'sglang',
  'mlx-lm',
  'transformers-serve',
] as const

export function responseOf(engine: string, name: string): Buffer {
  return readFileSync(`${FOLDER}${engine}/${name}.res`)
}

export function requestOf(engine: string, name: string): string {
  return readFileSync(`${FOLDER}${engine}/${name}.req`, 'utf8')
}

/** The JSON body of a recorded request. */
export function requestBodyOf(engine: string, name: string): Record<string, unknown> {
  const text = requestOf(engine, name)
  return JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as Record<string, unknown>
}

export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly socket: Socket
}

export interface FakeServer {
  readonly url: string
  readonly port: number
  readonly seen: readonly SeenRequest[]
  close(): Promise<void>
}

/** What a server does with a request: bytes to send before it closes, or any use of the socket. */
type Answer = (request: SeenRequest) => Buffer | string | null | undefined

/** A raw TCP server. Null: the answer was written to the socket. Undefined: 404. */
export async function fakeServer(answer: Answer, wantedPort = 0): Promise<FakeServer> {
  const seen: SeenRequest[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
    let text = ''
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1')
      for (;;) {
        const request = wholeRequest(text, socket)
        if (request === null) return
        text = text.slice(request.length)
        seen.push(request.request)
        const given = answer(request.request)
        if (given === null) continue
        socket.end(
          given ?? 'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
        )
      }
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(wantedPort, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    seen,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => {
        server.close(resolve)
      })
    },
  }
}

/** A server that replays recorded responses: `METHOD /path` → name of a recording. */
export function replayServer(
  engine: string,
  names: Readonly<Record<string, string>>,
): Promise<FakeServer> {
  return fakeServer(({ method, path }) => {
    const name = names[`${method} ${path}`]
    return name === undefined ? undefined : responseOf(engine, name)
  })
}

export function jsonResponse(status: number, value: unknown): string {
  const body = JSON.stringify(value)
  return `HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`
}

/** Server-sent events until the connection closes. */
export function eventResponse(events: readonly unknown[]): string {
  const texts = events.map((event) =>
    typeof event === 'string' ? event : `data: ${JSON.stringify(event)}`,
  )
  return `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n${texts.join('\n\n')}\n\n`
}

function wholeRequest(
  text: string,
  socket: Socket,
): { readonly request: SeenRequest; readonly length: number } | null {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return null
  const [line = '', ...headerLines] = text.slice(0, end).split('\r\n')
  const headers = Object.fromEntries(
    headerLines.map((header) => {
      const colon = header.indexOf(':')
      return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()]
    }),
  )
  const length = end + 4 + Number(headers['content-length'] ?? 0)
  if (text.length < length) return null
  const [method = '', path = ''] = line.split(' ')
  return { request: { method, path, headers, body: text.slice(end + 4, length), socket }, length }
}
