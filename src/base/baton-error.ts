/**
 * The one error class. Everything that can go wrong outside ourselves carries a stable code.
 *
 * Owns: the shape of an error in memory and as plain data (`ErrorValue`, what crosses the wire).
 * Does not own: what a client reads (room `api`).
 */
import { ERROR_CODES, isErrorCode } from './error-codes.ts'
import type { ErrorCode, ErrorCodeRow } from './error-codes.ts'

/** Facts that belong to an error: limits, actual values, the stage, the parameter's name. Plain data only. */
export type ErrorData = Readonly<Record<string, string | number | boolean | null>>

export interface ErrorOptions {
  readonly data?: ErrorData
  readonly cause?: unknown
}

/** An error as plain data; survives the wire unchanged. */
export interface ErrorValue {
  readonly code: ErrorCode
  readonly message: string
  readonly data?: ErrorData
}

export class BatonError extends Error {
  override readonly name = 'BatonError'
  readonly code: ErrorCode
  readonly data: ErrorData

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.data = options.data ?? {}
  }

  get row(): ErrorCodeRow {
    return ERROR_CODES[this.code]
  }

  toValue(): ErrorValue {
    const { code, message, data } = this
    return Object.keys(data).length === 0 ? { code, message } : { code, message, data }
  }

  static fromValue(value: { code: string; message: string; data?: ErrorData }): BatonError {
    const code = isErrorCode(value.code) ? value.code : 'backend.unknown'
    return new BatonError(code, value.message, value.data === undefined ? {} : { data: value.data })
  }

  /** Any thrown thing as a BatonError; what is not one becomes `fallback` and keeps the original as cause. */
  static from(thrown: unknown, fallback: ErrorCode = 'runtime.internal'): BatonError {
    if (thrown instanceof BatonError) return thrown
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    return new BatonError(fallback, message, { cause: thrown })
  }
}
