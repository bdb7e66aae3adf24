/** Sends a reply, which is a value, to its client. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { HttpReply } from '../../frontend/index.ts'
import { endWithoutStream } from './client.ts'
import type { Client } from './client.ts'
import { isHttp2 } from './http-listener.ts'
import { SocketStreamWriter } from './socket-stream-writer.ts'
import type { UnsentBytes } from './unsent-bytes.ts'

/** Reason phrases that Node does not know. */
const REASONS: Readonly<Record<number, string>> = {
  499: 'Client Closed Request',
  529: 'Overloaded',
}

/** A whole body is sent at once; a stream is opened, and ends by itself. */
export function sendReply(client: Client, reply: HttpReply, unsent: UnsentBytes): void {
  const { body } = reply
  const { res } = client
  client.requestId = reply.headers['x-request-id'] ?? null
  if (typeof body === 'string' || body instanceof Uint8Array) {
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
    writeHead(res, reply.status, withLength(reply.headers, length))
    if (typeof body === 'string' && length === body.length) endAscii(res, body)
    else res.end(body)
    unsent.wroteAll(client)
    return
  }
  writeHead(res, reply.status, reply.headers)
  if (res.req.method === 'HEAD') return endWithoutStream(client)
  client.writer = new SocketStreamWriter(client, unsent)
  body.open(client.writer)
}

/** Sends the whole reply, and ends the connection when `rest` is over. */
export async function sendBeforeRest(
  to: Client,
  reply: HttpReply,
  unsent: UnsentBytes,
  rest: Promise<unknown>,
): Promise<void> {
  const { body } = reply
  if (typeof body === 'string' || body instanceof Uint8Array) {
    writeHead(to.res, reply.status, withLength(reply.headers, Buffer.byteLength(body)))
    to.res.flushHeaders()
    to.res.write(body)
    await rest
    to.res.end()
    return
  }
  sendReply(to, reply, unsent)
}

/**
 * Writes head and body in one plain write. `end` with a body makes two writes, the second one empty, for which the
 * socket copies both to new memory.
 */
function endAscii(res: ServerResponse, body: string): void {
  // Another response of a pipeline may use the socket, and HTTP/2 has frames.
  const socket = isHttp2(res.req) ? null : res.socket
  if (socket === null || body === '') {
    res.end(body)
    return
  }
  // Corked only during `write`; otherwise the socket would stay corked until the next tick.
  socket.cork()
  res.write(body, 'latin1')
  socket.uncork()
  res.end()
}

function withLength(headers: HttpReply['headers'], length: number): OutgoingHttpHeaders {
  // The new member comes first: after a spread it would cost a call into the runtime.
  const all: OutgoingHttpHeaders = { 'content-length': length, ...headers }
  all['content-length'] = length
  return all
}

function writeHead(res: ServerResponse, status: number, headers: OutgoingHttpHeaders): void {
  // HTTP/2 has no reason phrases.
  const reason = isHttp2(res.req) ? undefined : REASONS[status]
  if (reason === undefined) res.writeHead(status, headers)
  else res.writeHead(status, reason, headers)
}
