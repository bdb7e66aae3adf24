/**
 * Headers that a request may contain only once. Node keeps the first `Host` and `Authorization` and joins others
 * with commas, so a proxy that reads the last one would attribute the request to another caller (RFC 9112, 3.2; RFC
 * 9110, 5.3).
 */
import type { IncomingMessage } from 'node:http'

const ONCE = ['Host', 'Authorization', 'x-api-key']
const REQUEST_ID = 'x-request-id'

/** The name of a header that affects authorisation or routing and occurs more than once; null: there is none. */
export function repeatedHeader(req: Pick<IncomingMessage, 'rawHeaders'>): string | null {
  const { rawHeaders } = req
  let seen = 0
  // In one pass without lists, because every request is checked.
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const given = rawHeaders[i] as string
    const at = ONCE.findIndex((name) => isSameName(given, name))
    if (at < 0) continue
    if ((seen & (1 << at)) !== 0) return ONCE[at] as string
    seen |= 1 << at
  }
  return null
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
