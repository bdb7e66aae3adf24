/**
 * Headers that affect whose request it is and where it ends. Some may occur only once: Node keeps the first `Host` and
 * `Authorization` and joins others with commas, so a proxy that reads the last one would attribute the request to
 * another caller (RFC 9112, 3.2; RFC 9110, 5.3).
 */
import type { IncomingMessage } from 'node:http'

const ONCE = ['Host', 'Authorization', 'x-api-key']
const REQUEST_ID = 'x-request-id'

/** What is wrong with the headers that affect authorisation or routing; null: nothing. */
export function headerFault(
  req: Pick<IncomingMessage, 'rawHeaders' | 'headers' | 'httpVersion'>,
): string | null {
  const { rawHeaders, headers, httpVersion } = req
  let seen = 0
  // In one pass without lists, because every request is checked.
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const given = rawHeaders[i] as string
    const at = ONCE.findIndex((name) => isSameName(given, name))
    if (at < 0) continue
    if ((seen & (1 << at)) !== 0) return `the header ${ONCE[at]} occurs more than once`
    seen |= 1 << at
  }
  // Node undoes `chunked` only; a proxy could take the rest for the end of another request (RFC 9112, 6.1).
  const coding = headers['transfer-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return `the transfer-encoding ${coding} is not supported: expected chunked`
  }
  // Every server must refuse such requests (RFC 9112, 3.2).
  return httpVersion === '1.1' && (seen & 1) === 0 ? 'the header Host is missing' : null
}

/** Of several request ids the first one counts, so that an id that a proxy adds does not hide the client's. */
export function withOneRequestId(
  req: Pick<IncomingMessage, 'rawHeaders'>,
  headers: Record<string, string>,
): Record<string, string> {
  // Joined values contain a comma; all other headers are unchanged.
  if (headers[REQUEST_ID]?.includes(',') !== true) return headers
  const [first] = valuesOf(req, REQUEST_ID)
  if (first !== undefined) headers[REQUEST_ID] = first
  return headers
}

function valuesOf({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const given = rawHeaders[i] as string
    if (!isSameName(given, name)) continue
    values.push(rawHeaders[i + 1] as string)
  }
  return values
}

function isSameName(given: string, name: string): boolean {
  return given.length === name.length && given.toLowerCase() === name.toLowerCase()
}
