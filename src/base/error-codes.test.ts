import { describe, expect, it } from 'vitest'
import { ERROR_CODES, isErrorCode, isSendersFault } from './error-codes.ts'
import type { ErrorClass, ErrorCodeRow } from './error-codes.ts'

const ROWS: readonly (readonly [string, ErrorCodeRow])[] = Object.entries(ERROR_CODES)

/** A class has one status; invalid requests have a plain one and one for a wrong method. */
const STATUS: Readonly<Record<ErrorClass, readonly number[]>> = {
  InvalidRequest: [400, 405],
  Unauthenticated: [401],
  PermissionDenied: [403],
  NotFound: [404],
  Conflict: [409],
  PayloadTooLarge: [413],
  UnsupportedMedia: [415],
  RateLimited: [429],
  CapacityExhausted: [529],
  Cancelled: [499],
  Unavailable: [503],
  BackendProtocol: [502],
  DeadlineExceeded: [504],
  NotImplemented: [501],
  Internal: [500],
}

/** Classes whose requests may succeed if they are sent again later. */
const RETRYABLE = new Set<ErrorClass>([
  'RateLimited',
  'CapacityExhausted',
  'Unavailable',
  'DeadlineExceeded',
  // The bytes were damaged, or another peer is meant.
  'BackendProtocol',
])

describe('ERROR_CODES - every row', () => {
  it.each(ROWS)('%s - has the status of its class', (_code, row) => {
    expect(STATUS[row.class]).toContain(row.httpStatus)
  })

  it.each(ROWS)('%s - may be retried exactly when its class may', (_code, row) => {
    expect(row.retryable).toBe(RETRYABLE.has(row.class))
  })

  it.each(ROWS)('%s - has a name of two parts and a sentence', (code, row) => {
    expect(code).toMatch(/^[a-z]+\.[a-z]+(_[a-z]+)*$/)
    expect(row.meaning).toMatch(/^[A-Z].*\.$/)
  })
})

describe('ERROR_CODES - the table', () => {
  it('migratable codes - concern the worker or the connection, never the request', () => {
    expect(ROWS.filter(([, row]) => row.migratable).map(([code]) => code)).toEqual([
      'transport.cannot_connect',
      'transport.disconnected',
      'transport.connection_timeout',
      'transport.unauthenticated',
      'transport.tls_failed',
      'transport.protocol',
      'transport.version_mismatch',
      'backend.worker_unavailable',
      'backend.worker_draining',
      'backend.worker_differs',
      'backend.engine_shutdown',
      'backend.cancelled',
    ])
  })

  it('every class - is used by some code', () => {
    expect(new Set(ROWS.map(([, row]) => row.class))).toEqual(new Set(Object.keys(STATUS)))
  })
})

describe('isErrorCode', () => {
  it('only codes of the table - are recognised, not names of Object.prototype', () => {
    expect(ROWS.every(([code]) => isErrorCode(code))).toBe(true)
    expect(['', 'constructor', '__proto__', 'Request.Conflict'].some(isErrorCode)).toBe(false)
  })
})

describe('isSendersFault', () => {
  it.each([
    ['request.invalid_argument', true],
    ['request.cancelled', true],
    ['capacity.exhausted', false],
    ['backend.unknown', false],
    ['a.code_of_another_version', false],
    ['toString', false],
  ])('%s - %s', (code, expected) => {
    expect(isSendersFault(code)).toBe(expected)
  })
})
