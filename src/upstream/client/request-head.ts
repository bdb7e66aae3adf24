/** The request line and headers of a call, as they are written to the upstream server. */
import { BatonError } from '../../base/index.ts'
import type { UpstreamRequest } from './upstream-call.ts'
import type { UpstreamUrl } from './upstream-url.ts'

const BREAKING = /[\r\n\0]/
const NOT_IN_NAMES = /[^!#$%&'*+.^_`|~0-9a-z-]/i

/** `own`: headers of every request of the client. Throws if a header is invalid. */
export function requestHead(
  url: UpstreamUrl,
  request: UpstreamRequest,
  own: Readonly<Record<string, string>> = {},
): string {
  const { method, path, body, headers, reuse } = request
  let head = `${method} ${url.basePath}${path} HTTP/1.1\r\nHost: ${url.hostHeader}\r\n`
  if (url.authorization !== undefined) head += `Authorization: ${url.authorization}\r\n`
  for (const name in own) head += headerLine(name, own[name] as string)
  for (const name in headers) head += headerLine(name, headers[name] as string)
  if (body !== undefined) {
    const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    head += `Content-Length: ${length}\r\n`
  } else if (method !== 'GET' && method !== 'HEAD') head += 'Content-Length: 0\r\n'
  return `${head}Connection: ${reuse === false ? 'close' : 'keep-alive'}\r\n\r\n`
}

/** Refuses line breaks in a value, which would start another header or another request. */
function headerLine(name: string, value: string): string {
  if (BREAKING.test(value) || NOT_IN_NAMES.test(name)) {
    throw new BatonError('request.invalid_argument', 'a header value is invalid', {
      data: { name },
    })
  }
  return `${name}: ${value}\r\n`
}
