/**
 * Answers what Node does not pass on as a request, in the form of other errors: what its HTTP parser refuses, and
 * CONNECT. Node's own answers have no body, and it closes the connection at once, so that a client that still sends may
 * lose them.
 */
import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Http2SecureServer, Http2ServerResponse } from 'node:http2'
import type { Socket } from 'node:net'
import { BatonError } from '../../base/index.ts'
import type { HttpReply } from '../../frontend/index.ts'

/** How long a client may read the answer before the connection is closed. */
const LINGER_MS = 1_000

interface Answer {
  readonly status: number
  readonly error: BatonError
}

/** `refuse` writes the reply for an error; its status is replaced. */
export function answerBrokenRequests(
  server: Server | Http2SecureServer,
  refuse: (error: BatonError) => HttpReply,
): void {
  const broken = new WeakSet<Socket>()
  server.on('clientError', (thrown: NodeJS.ErrnoException, socket: Socket) => {
    if (!socket.writable && !socket.writableEnded) socket.destroy()
    // The client continues to send.
    if (!socket.writable || broken.has(socket)) return
    broken.add(socket)
    const { status, error } = answerTo(thrown)
    endInTurn(socket, textOf(status, refuse(error)))
  })
}

/** The answers to the whole requests of a pipeline come first: the client takes what comes in their place for theirs. */
function endInTurn(socket: Socket, text: string): void {
  const current = messageOn(socket)
  if (current?.req.complete === true) {
    current.once('close', () => endInTurn(socket, text))
  } else if (current?.headersSent === true) {
    // A part of the answer to the broken request was sent; this one would be taken for its continuation.
    socket.destroy()
  } else if (socket.writable) {
    endWith(socket, text)
  }
}

/** Node gives the connection away with a CONNECT, which asks a proxy for a tunnel. Over HTTP/2 it is a request. */
export function answerConnect(
  server: Server | Http2SecureServer,
  refuse: (error: BatonError) => HttpReply,
): void {
  server.on('connect', (_: IncomingMessage, client: Socket | Http2ServerResponse) => {
    const text = 'CONNECT is not supported: this server is no proxy'
    const error = new BatonError('runtime.not_implemented', text)
    const reply = refuse(error)
    if ('writeHead' in client) {
      client.writeHead(reply.status, reply.headers)
      client.end(typeof reply.body === 'string' ? reply.body : '')
      return
    }
    // Node has removed its listener.
    client.on('error', () => client.destroy())
    if (messageOn(client) !== null) {
      // The answer to an earlier request must come first.
      client.destroy()
      return
    }
    // What the client sends for the tunnel would otherwise reset the connection before it has read the answer.
    client.resume()
    endWith(client, textOf(reply.status, reply))
  })
}

function endWith(socket: Socket, text: string): void {
  socket.end(text)
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
}

/** The status that Node would send. */
function answerTo({ code, message }: NodeJS.ErrnoException): Answer {
  const refused = (text: string): BatonError => new BatonError('request.invalid_argument', text)
  const tooLarge = (text: string): BatonError => new BatonError('request.payload_too_large', text)
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, error: refused('the headers of the request are too large') }
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return { status: 413, error: tooLarge('the chunk extensions of the request are too large') }
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, error: refused('the request did not arrive in time') }
    default:
      return { status: 400, error: refused(`the request is not valid HTTP: ${message}`) }
  }
}

function textOf(status: number, { headers, body }: HttpReply): string {
  const text = typeof body === 'string' ? body : ''
  const lines = Object.entries({
    ...headers,
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`
}

/** The answer that the connection waits for or sends; null: none. */
function messageOn(socket: Socket): ServerResponse | null {
  // Node's own answers depend on the same field, which has no public form.
  const { _httpMessage: current } = socket as { readonly _httpMessage?: ServerResponse | null }
  return current ?? null
}
