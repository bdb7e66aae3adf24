/**
 * Limits that Node has for HTTP/1.1 only: how long an HTTP/2 connection may be open without a request, and a request
 * without its end.
 *
 * Only requests count as activity: a client that sends pings, settings or a head byte by byte requests nothing.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2SecureServer, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { SlowSenderLimits } from './slow-sender-limits.ts'

export interface Http2Limits extends Pick<SlowSenderLimits, 'headMs' | 'requestMs'> {
  /** For a connection whose last request has ended. */
  readonly idleMs: number
}

/** The same as Node's limit for HTTP/1.1. */
const HEAD_BYTES_MAX = 16 * 1024
const NO_ERROR = 0
const ENHANCE_YOUR_CALM = 11

export function limitHttp2(server: Http2SecureServer, limits: Http2Limits): void {
  server.on('session', (session) => limitSession(session, limits))
  server.on('stream', (stream) => limitBody(stream, limits.requestMs))
}

function limitSession(session: ServerHttp2Session, { headMs, idleMs }: Http2Limits): void {
  let streams = 0
  let timer: NodeJS.Timeout | undefined
  const waitFor = (ms: number): void => {
    clearTimeout(timer)
    // Pending socket data is dropped, because there is no request on this connection.
    timer = setTimeout(() => session.destroy(undefined, NO_ERROR), ms)
    timer.unref()
  }
  waitFor(headMs)
  session.on('stream', (stream) => {
    streams += 1
    clearTimeout(timer)
    stream.once('close', () => {
      streams -= 1
      if (streams === 0 && !session.destroyed) waitFor(idleMs)
    })
  })
  session.once('close', () => clearTimeout(timer))
}

/** A body that does not end: 408 if nothing was answered yet, and the stream is closed. */
function limitBody(stream: ServerHttp2Stream, requestMs: number): void {
  if (stream.readableEnded || stream.endAfterHeaders) return
  const timer = setTimeout(() => {
    if (!stream.headersSent && !stream.destroyed) stream.respond({ ':status': 408 })
    stream.close(ENHANCE_YOUR_CALM)
  }, requestMs)
  timer.unref()
  const stop = (): void => clearTimeout(timer)
  stream.once('end', stop)
  stream.once('close', stop)
}

/** Refuses heads that are too large: Node limits heads of HTTP/2 to 64 KiB and sends no answer above that. */
export function boundedHead(
  onRequest: (req: IncomingMessage, res: ServerResponse) => void,
): (req: IncomingMessage, res: ServerResponse) => void {
  return (req, res) => {
    let bytes = 0
    if (req.httpVersionMajor === 2) for (const text of req.rawHeaders) bytes += text.length
    if (bytes <= HEAD_BYTES_MAX) return onRequest(req, res)
    res.writeHead(431)
    res.end()
  }
}
