/**
 * Converts the refusal of a foreign server to a `BatonError`.
 *
 * Owns: the forms in which servers write errors (an object, a text, FastAPI's `detail`), and that nothing internal
 * of the server (paths, source lines, hosts) reaches a client.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { jsonOf } from '../client/fetch-json.ts'

const TEXT_MAX = 300
/**
 * Matches paths, tracebacks, addresses, host names, Python class names, pages of proxies. Linear for any text,
 * because a client may make the engine repeat a text of its choice.
 */
const INSIDE = new RegExp(
  [
    String.raw`(^|[\s'"(=])(\/|~\/|[a-z]:\\)[\w.-]+[\\/]`,
    String.raw`File "|Traceback|line \d|\.(py|cpp|cc|rs|so)\b|<class |object at 0x`,
    String.raw`\b\d{1,3}(\.\d{1,3}){3}\b|\bip(-\d{1,3}){4}\b`,
    // IPv6: with two colons in a row, or all eight parts.
    String.raw`(^|[\s\['"(=])[\da-f]{0,4}(:[\da-f]{1,4}){0,6}::|\b[\da-f]{1,4}(:[\da-f]{1,4}){7}\b`,
    String.raw`https?:\/\/|localhost|[\w-]:\d{2,5}\b`,
    String.raw`[\w-]\.(svc|internal|localdomain|local|lan|intra|corp)\b(?!\.?[\w-])`,
    String.raw`^\s*<(!doctype|html|head|body)\b`,
  ].join('|'),
  'i',
)

export function errorOfResponse(
  status: number,
  text: string,
  /** The header of a 429, in seconds. */
  retryAfter?: string,
): BatonError {
  const json = jsonOf(text)
  const shape = isRecord(json) ? json : null
  return upstreamError(status, messageIn(json) ?? '', shape, retryAfterIn(retryAfter))
}

/** For a redirect, which is neither an answer nor a refusal and says nothing about the request. */
export function redirected(status: number): BatonError {
  return new BatonError('backend.unknown', `the engine answered ${status} instead of an answer`, {
    data: { stage: 'upstream', upstreamStatus: status },
  })
}

/** A page of something before the engine, such as a proxy or a login; null: it is none. */
export function pageInstead(type: string | undefined, text: string): BatonError | null {
  if (type?.trimStart().toLowerCase().startsWith('text/html') !== true || !PAGE.test(text))
    return null
  return new BatonError(
    'backend.worker_unavailable',
    'a web page (text/html) came instead of an answer of the engine',
    { data: { stage: 'upstream', upstreamStatus: 200 } },
  )
}

const PAGE = /^\s*<(?:!doctype html|html)[\s>]/i

/**
 * `finish_reason` of a request that has failed; any other one is the end of an answer. Gateways pass on the words of their
 * engines.
 */
const FAILED =
  /^(abort(ed)?|cancell?ed|error|failed|timeout|network_error|insufficient_system_resource)$/i

/** The engine was told to end the request, or could not go on: the answer so far is not whole. */
export function failureOfFinish(finish: string | undefined): BatonError | null {
  return finish !== undefined && FAILED.test(finish) ? abortedByEngine() : null
}

export function abortedByEngine(): BatonError {
  return new BatonError('backend.engine_shutdown', 'the engine aborted the request', {
    data: { stage: 'upstream' },
  })
}

function retryAfterIn(header: string | undefined): { readonly retryAfterMs?: number } {
  if (header === undefined || !/^\d{1,5}$/.test(header)) return {}
  return { retryAfterMs: 1000 * Number(header) }
}

/** An error event in a stream that had started well; null: the event is no error. */
export function errorOfEvent(json: unknown): BatonError | null {
  if (!isRecord(json)) return null
  const { error } = json
  if (error === undefined || error === null) {
    const isTopLevel = json['object'] === 'error' && typeof json['message'] === 'string'
    return isTopLevel ? upstreamError(statusIn(json) ?? 500, String(json['message']), json) : null
  }
  const status = (isRecord(error) ? statusIn(error) : null) ?? statusIn(json) ?? 500
  return upstreamError(status, messageIn(json) ?? '', json)
}

function upstreamError(
  status: number,
  message: string,
  json: Readonly<Record<string, unknown>> | null,
  wait: { readonly retryAfterMs?: number } = {},
): BatonError {
  if (status < 400) return redirected(status)
  const data = { stage: 'upstream', upstreamStatus: status }
  const cause = new Error(`upstream answered ${status}: ${message.slice(0, 2000)}`)
  const shown = publicMessage(message)
  const because = shown === null ? '' : `: ${shown}`
  if (isAccessRefusal(status)) {
    // The credentials are Baton's, not the client's, and another engine may accept them.
    const what =
      status === 401 ? 'the credentials of its frontend' : 'to serve this to its frontend'
    const words = shown === null ? '' : `: ${withoutKeys(shown)}`
    return new BatonError(
      'backend.worker_unavailable',
      `the engine refuses ${what} (status ${status})${words}`,
      { data, cause },
    )
  }
  if (status === 429) {
    return new BatonError('capacity.worker_overloaded', `the engine has no capacity${because}`, {
      data: { ...data, ...wait },
      cause,
    })
  }
  if (status === 502 || status === 503 || status === 504) {
    return new BatonError('backend.worker_unavailable', 'the engine cannot serve now', {
      data,
      cause,
    })
  }
  if (status >= 500) {
    const text = `the engine failed (${[`status ${status}`, ...knownFailure(message)].join(', ')})`
    return new BatonError('backend.engine_shutdown', text, { data, cause })
  }
  if (isTooLong(message, json)) {
    const text = shown ?? 'the prompt is longer than the context of the engine'
    return new BatonError('request.context_length_exceeded', text, { data, cause })
  }
  return new BatonError('backend.invalid_argument', `the engine refused the request${because}`, {
    data,
    cause,
  })
}

/**
 * What operators look for in a log. Only these words of the engine's text are used, because the text may contain a
 * part of a prompt.
 */
const KNOWN_FAILURES =
  /\b(?:(?:CUDA|HIP|XPU|host|GPU) )?out of memory\b|\bEngineCore\b|\bEngineDead\w*|\bengine is dead\b|\bInternal server error\b|\bKVTransferError\b|\bNCCL\b|\bCUDA error\b|\bNIXL\w*|\bno space left on device\b|\btimed out\b/i

function knownFailure(message: string): string[] {
  const [found] = KNOWN_FAILURES.exec(message) ?? []
  return found === undefined ? [] : [found]
}

/** The server does not accept who asks, or what may be asked: a matter of its settings, not of the request. */
export function isAccessRefusal(status: unknown): boolean {
  return status === 401 || status === 403
}

/** Servers repeat the key that they refuse, or parts of it. */
function withoutKeys(text: string): string {
  return text.replaceAll(
    /[^\s'"`]*\*{2}[^\s'"`]*|\b(?:sk|pk|hf|key|token)[-_][^\s'"`]+|(?=[\w.-]*\d)[\w.-]{16,}|(?<=\bbearer )\S+/gi,
    '…',
  )
}

/** Text arrived where ids were requested: the engine is too old, or of another kind. */
export function withoutIds(): BatonError {
  return new BatonError(
    'backend.contract_violation',
    'the engine sends no token ids: its version is too old, or it is of another kind than assumed; --forward works without ids',
    { data: { stage: 'upstream' } },
  )
}

export function countMismatch(): BatonError {
  return new BatonError(
    'backend.contract_violation',
    'the engine counts more or fewer tokens than it sends',
    { data: { stage: 'upstream' } },
  )
}

/** A text that clients may see; null when it contains internals of the server. */
export function publicMessage(message: string): string | null {
  const line = message.split('\n', 1)[0]?.trim() ?? ''
  if (line === '' || line !== message.trim() || INSIDE.test(message)) return null
  return line.length > TEXT_MAX ? `${line.slice(0, TEXT_MAX)}…` : line
}

/** True when a text contains internals of the server. */
export function holdsInside(text: string): boolean {
  return INSIDE.test(text)
}

function messageIn(json: unknown): string | null {
  if (typeof json === 'string') return json
  if (!isRecord(json)) return null
  const { error, message, detail } = json
  if (typeof error === 'string') return error
  if (isRecord(error) && typeof error['message'] === 'string') return error['message']
  if (typeof message === 'string') return message
  if (typeof detail === 'string') return detail
  if (Array.isArray(detail)) {
    const messages = (detail as unknown[]).filter(isRecord).map((entry) => entry['msg'])
    return messages.filter((text) => typeof text === 'string').join('; ')
  }
  return null
}

function statusIn(json: Readonly<Record<string, unknown>>): number | null {
  const { code } = json
  return typeof code === 'number' && code >= 400 && code < 600 ? code : null
}

function isTooLong(message: string, json: Readonly<Record<string, unknown>> | null): boolean {
  const error = json?.['error']
  if (isRecord(error) && error['type'] === 'exceed_context_size_error') return true
  return /context (length|size|window)|maximum (model|context)|max_model_len/i.test(message)
}
