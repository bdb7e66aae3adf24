/**
 * The error body for clients, in the format of the OpenAI API: `{"error":{message,type,param,code}}`.
 *
 * Owns the mapping from error class to `type`, and from Baton's codes to those that OpenAI clients know.
 */
import type { BatonError, ErrorClass, ErrorCode } from '../../base/index.ts'
import { clientMessage } from '../fields/client-message.ts'
import { asciiJson } from '../fields/json-escape.ts'

export interface ErrorReply {
  readonly status: number
  /** JSON text in ASCII. */
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

const TYPE_OF_CLASS: Readonly<Record<ErrorClass, string>> = {
  InvalidRequest: 'invalid_request_error',
  Unauthenticated: 'authentication_error',
  PermissionDenied: 'permission_error',
  NotFound: 'not_found_error',
  Conflict: 'conflict_error',
  PayloadTooLarge: 'invalid_request_error',
  UnsupportedMedia: 'invalid_request_error',
  RateLimited: 'rate_limit_error',
  CapacityExhausted: 'overloaded_error',
  Cancelled: 'request_cancelled',
  Unavailable: 'service_unavailable',
  BackendProtocol: 'server_error',
  DeadlineExceeded: 'timeout_error',
  NotImplemented: 'not_implemented_error',
  Internal: 'server_error',
}

/** Codes that OpenAI clients compare with; all others are sent unchanged. */
const KNOWN_CODES: Partial<Record<ErrorCode, string>> = {
  'request.context_length_exceeded': 'context_length_exceeded',
  'request.unsupported_parameter': 'unsupported_parameter',
}

/** The error's retry time in whole seconds; one by default. */
function retryAfter({ data }: BatonError): string {
  const { retryAfterMs } = data
  const seconds = typeof retryAfterMs === 'number' ? Math.ceil(retryAfterMs / 1000) : 1
  return String(Math.max(seconds, 1))
}

export function errorTypeOf(error: BatonError): string {
  return TYPE_OF_CLASS[error.row.class]
}

/** The part that a stream's error event and an error body have in common. */
function errorObject(error: BatonError): Record<string, unknown> {
  const { param, stage, clientCode, limit, current } = error.data
  return {
    message: clientMessage(error),
    type: errorTypeOf(error),
    param: typeof param === 'string' ? param : null,
    code: typeof clientCode === 'string' ? clientCode : (KNOWN_CODES[error.code] ?? error.code),
    ...(typeof stage === 'string' ? { stage } : {}),
    ...(typeof limit === 'number' ? { limit } : {}),
    ...(typeof current === 'number' ? { current } : {}),
  }
}

export function errorReply(error: BatonError): ErrorReply {
  return {
    status: error.row.httpStatus,
    body: asciiJson({ error: errorObject(error) }),
    headers: {
      'content-type': 'application/json',
      ...(error.row.retryable ? { 'retry-after': retryAfter(error) } : {}),
    },
  }
}

/** An error after the stream has started. OpenAI clients look for `error` in `data`, so there is no event name. */
export function errorEvent(error: BatonError): string {
  return `data: ${asciiJson({ error: errorObject(error) })}\n\n`
}
