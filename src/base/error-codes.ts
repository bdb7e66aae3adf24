/**
 * The table of error codes: class, HTTP status, whether a retry may help, whether the request may migrate.
 *
 * Owns every stable code that a client, a peer or a log may see. A retired code is never reused. A test compares
 * `docs/errors.md` with this table.
 */
export type ErrorClass =
  | 'InvalidRequest'
  | 'Unauthenticated'
  | 'PermissionDenied'
  | 'NotFound'
  | 'Conflict'
  | 'PayloadTooLarge'
  | 'UnsupportedMedia'
  | 'RateLimited'
  | 'CapacityExhausted'
  | 'Cancelled'
  | 'Unavailable'
  | 'BackendProtocol'
  | 'DeadlineExceeded'
  | 'NotImplemented'
  | 'Internal'

export interface ErrorCodeRow {
  readonly class: ErrorClass
  readonly httpStatus: number
  /** The same request may succeed if the client sends it again later. */
  readonly retryable: boolean
  /** The frontend may continue the request on another worker, with the tokens generated so far. */
  readonly migratable: boolean
  readonly meaning: string
}

const row = (
  errorClass: ErrorClass,
  httpStatus: number,
  flags: '' | 'retry' | 'retry migrate',
  meaning: string,
): ErrorCodeRow => ({
  class: errorClass,
  httpStatus,
  retryable: flags.includes('retry'),
  migratable: flags.includes('migrate'),
  meaning,
})

export const ERROR_CODES = {
  'request.invalid_argument': row(
    'InvalidRequest',
    400,
    '',
    'A value of the request is invalid; the message names it.',
  ),
  'request.unsupported_parameter': row(
    'InvalidRequest',
    400,
    '',
    'A field that this server or engine does not support.',
  ),
  'request.context_length_exceeded': row(
    'InvalidRequest',
    400,
    '',
    'Prompt (plus output) is longer than the context.',
  ),
  'request.unauthenticated': row('Unauthenticated', 401, '', 'No or wrong credentials.'),
  'request.permission_denied': row(
    'PermissionDenied',
    403,
    '',
    'The credentials do not allow this.',
  ),
  'request.not_found': row('NotFound', 404, '', 'No such route, model, worker or record.'),
  'request.method_not_allowed': row(
    'InvalidRequest',
    405,
    '',
    'The route exists, but not for this method.',
  ),
  'request.conflict': row('Conflict', 409, '', 'The state of the target does not allow this.'),
  'request.payload_too_large': row('PayloadTooLarge', 413, '', 'The body is over the limit.'),
  'request.unsupported_media': row(
    'UnsupportedMedia',
    415,
    '',
    'The content type is not supported.',
  ),
  'request.rate_limited': row('RateLimited', 429, 'retry', 'Too many requests of this tenant.'),
  'request.cancelled': row('Cancelled', 499, '', 'The client left or asked to stop.'),
  'request.deadline_exceeded': row(
    'DeadlineExceeded',
    504,
    'retry',
    'The deadline of a stage passed; the message names the stage.',
  ),
  'capacity.exhausted': row(
    'CapacityExhausted',
    529,
    'retry',
    'A limit of the frontend is reached (queue, streams).',
  ),
  'capacity.pool_exhausted': row(
    'CapacityExhausted',
    529,
    'retry',
    'All workers of the pool are at capacity.',
  ),
  'capacity.worker_overloaded': row(
    'CapacityExhausted',
    529,
    'retry',
    'The chosen worker is at capacity and refused the request.',
  ),
  'capacity.goal_unreachable': row(
    'Unavailable',
    503,
    'retry',
    'No worker is predicted to meet the latency goals of the request.',
  ),
  'transport.cannot_connect': row(
    'Unavailable',
    503,
    'retry migrate',
    'No connection to the worker.',
  ),
  'transport.disconnected': row(
    'Unavailable',
    503,
    'retry migrate',
    'The connection to the worker broke.',
  ),
  'transport.connection_timeout': row(
    'DeadlineExceeded',
    504,
    'retry migrate',
    'The worker did not answer the connection in time.',
  ),
  'transport.unauthenticated': row(
    'Unavailable',
    503,
    'retry migrate',
    'The worker has another shared secret, or only one side has one.',
  ),
  'transport.tls_failed': row(
    'Unavailable',
    503,
    'retry migrate',
    'The TLS handshake with the worker failed, or only one side uses TLS.',
  ),
  'transport.protocol': row(
    'BackendProtocol',
    502,
    'retry migrate',
    'The peer violated the wire protocol; the connection is closed.',
  ),
  'transport.version_mismatch': row(
    'BackendProtocol',
    502,
    'retry migrate',
    'The peers speak different wire versions.',
  ),
  'backend.invalid_argument': row(
    'InvalidRequest',
    400,
    '',
    'The engine refused a value of the request.',
  ),
  'backend.worker_unavailable': row(
    'Unavailable',
    503,
    'retry migrate',
    'No worker can serve this now.',
  ),
  'backend.worker_draining': row(
    'Unavailable',
    503,
    'retry migrate',
    'The worker is shutting down and accepts no new requests.',
  ),
  'backend.worker_differs': row(
    'Unavailable',
    503,
    'retry migrate',
    'The worker differs from those that serve its model (block size, context, tokenizer, template, vocabulary).',
  ),
  'backend.engine_shutdown': row(
    'Unavailable',
    503,
    'retry migrate',
    'The engine stopped while it served the request.',
  ),
  'backend.stream_incomplete': row(
    'Unavailable',
    503,
    'retry',
    'The engine ended the stream without a terminal item.',
  ),
  'backend.response_timeout': row(
    'DeadlineExceeded',
    504,
    'retry',
    'The engine did not answer in time.',
  ),
  'backend.cancelled': row(
    'Unavailable',
    503,
    'retry migrate',
    'The engine cancelled a request without being asked to.',
  ),
  'backend.contract_violation': row(
    'Internal',
    500,
    '',
    'The engine violated the stream contract; the message names the rule.',
  ),
  'backend.unknown': row('Internal', 500, '', 'The engine failed for an unknown reason.'),
  'kv.transfer_failed': row('Unavailable', 503, 'retry', 'The KV cache could not be transferred.'),
  'kv.block_refused': row(
    'BackendProtocol',
    502,
    'retry',
    'A KV block was truncated, damaged, or of another model.',
  ),
  'kv.offer_gone': row('Unavailable', 503, 'retry', 'The offered KV cache is no longer held.'),
  'model.load_failed': row(
    'Internal',
    500,
    '',
    'The model file is missing, damaged or not supported.',
  ),
  'config.invalid': row(
    'InvalidRequest',
    400,
    '',
    'A flag, variable or config file is invalid; the message names it.',
  ),
  'host.address_in_use': row('Conflict', 409, '', 'The port is in use.'),
  'host.disk_full': row(
    'CapacityExhausted',
    529,
    'retry',
    'A file cannot be written: the disk or the quota is full.',
  ),
  'discovery.unavailable': row(
    'Unavailable',
    503,
    'retry',
    'The discovery backend cannot be reached or rejects the registration.',
  ),
  'runtime.not_implemented': row(
    'NotImplemented',
    501,
    '',
    'Not available in this build or configuration.',
  ),
  'runtime.internal': row('Internal', 500, '', 'An internal error: see the log.'),
} as const satisfies Record<string, ErrorCodeRow>

export type ErrorCode = keyof typeof ERROR_CODES

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERROR_CODES, text)
}

/**
 * The error is the fault of the request's sender, not of the server. A code that is not known (of another version)
 * counts as the server's.
 */
export function isSendersFault(code: string): boolean {
  return isErrorCode(code) && ERROR_CODES[code].httpStatus < 500
}
