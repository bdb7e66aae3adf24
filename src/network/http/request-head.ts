/** The head of a request as a value, from node:http or node:http2. */
import type { IncomingMessage } from 'node:http'
import type { HttpHead } from '../../frontend/index.ts'
import { ClientSignal } from './client-signal.ts'
import { withOneRequestId } from './header-faults.ts'
import { isHttp2, plainHeaders } from './http-listener.ts'

export function headOf(req: IncomingMessage, signal: ClientSignal): HttpHead {
  const url = withoutOrigin(req.url ?? '/')
  const queryStart = url.indexOf('?')
  const { remoteAddress } = req.socket
  const method = req.method ?? 'GET'
  const path = queryStart < 0 ? url : url.slice(0, queryStart)
  const query = queryStart < 0 ? '' : url.slice(queryStart + 1)
  const headers = withOneRequestId(req, headersOf(req))
  // As one literal instead of a spread, because every request creates one.
  return remoteAddress === undefined
    ? { method, path, query, headers, signal }
    : { method, path, query, headers, signal, remoteAddress }
}

/** Of a request whose head cannot be read. */
export function noHead(): HttpHead {
  return { method: '', path: '', query: '', headers: {}, signal: new ClientSignal() }
}

/** Returns the path of an absolute URL, which a proxy may send and every server must accept (RFC 9112, 3.2.2). */
function withoutOrigin(target: string): string {
  if (target.startsWith('/')) return target
  const [origin = ''] = /^https?:\/\/[^/?]*/i.exec(target) ?? []
  if (origin === '') return target
  const path = target.slice(origin.length)
  return path.startsWith('/') ? path : `/${path}`
}

/** Node joins repeated headers; only `set-cookie` stays a list, and requests do not have it. */
function headersOf(req: IncomingMessage): Record<string, string> {
  return isHttp2(req) ? plainHeaders(req.headers) : (req.headers as Record<string, string>)
}
