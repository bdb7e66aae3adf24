/**
 * What clients may see of an engine's answer: an allow-list of headers, and error texts without internals.
 */
import type { BatonError } from '../../base/index.ts'
import { errorOfResponse, holdsInside } from '../dialects/upstream-error.ts'
import { dataOf } from './reported-failure.ts'

const SHOWN = new Set([
  'content-type',
  'content-disposition',
  'content-encoding',
  'content-language',
  'cache-control',
  'retry-after',
])
const SHOWN_PREFIX = /^(?:x-ratelimit-|anthropic-ratelimit-|openai-(?:processing|version))/
const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]+$/
/** Other characters cannot be written into a head, and the client would get no answer at all. */
const WRITABLE = /^[\t\x20-\x7e]*$/
const utf8 = new TextDecoder()

export function shownHeaders(headers: ReadonlyMap<string, string>): Record<string, string> {
  const shown: Record<string, string> = {}
  for (const [name, value] of headers) {
    const isShown = SHOWN.has(name) || (SHOWN_PREFIX.test(name) && TOKEN.test(name))
    if (isShown && WRITABLE.test(value)) shown[name] = value
  }
  return shown
}

/** The engine's refusal as a `BatonError`; null: it may be shown unchanged. */
export function hiddenRefusal(status: number, body: Uint8Array): BatonError | null {
  const text = utf8.decode(body)
  // A refusal of Baton's own credentials does not concern the client.
  if (status !== 401 && status !== 403 && !holdsInside(text)) return null
  return errorOfResponse(status, text)
}

/** The same for an event within a stream. */
export function hiddenFailure(event: string): BatonError | null {
  const text = Buffer.from(event, 'latin1').toString('utf8')
  if (!holdsInside(text)) return null
  return errorOfResponse(500, dataOf(text))
}

/** The same for a whole answer with a successful status that reports a failure. `text`: one character per byte. */
export function hiddenFault(text: string): BatonError | null {
  const decoded = Buffer.from(text, 'latin1').toString('utf8')
  return holdsInside(decoded) ? errorOfResponse(500, decoded) : null
}
