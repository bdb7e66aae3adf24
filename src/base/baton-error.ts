/**
 * The one error class. Every failure that is not a bug in Baton has a stable code.
 *
 * Owns the shape of an error in memory and as plain data (`ErrorValue`, the form sent over the wire), and its size
 * limits, because an engine or a plugin may throw values of any kind and size. What a client sees of an error is
 * decided in room `api`.
 */
import { ERROR_CODES, isErrorCode } from './error-codes.ts'
import type { ErrorCode, ErrorCodeRow } from './error-codes.ts'

/** Facts about an error: limits, actual values, the stage, the parameter's name. Plain data only. */
export type ErrorData = Readonly<Record<string, string | number | boolean | null>>

interface ErrorOptions {
  readonly data?: ErrorData
  readonly cause?: unknown
}

/** An error as plain data; unchanged after a trip over the wire. */
export interface ErrorValue {
  readonly code: ErrorCode
  readonly message: string
  readonly data?: ErrorData
}

const TEXT_MAX = 8192
const DATA_MAX = 64
const PARTS_MAX = 4
const NO_TEXT = 'a value that cannot be converted to text'

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
    return valueOf(this)
  }

  static fromValue(value: { code: string; message: string; data?: ErrorData }): BatonError {
    const code = isErrorCode(value.code) ? value.code : 'backend.unknown'
    return new BatonError(code, value.message, value.data === undefined ? {} : { data: value.data })
  }

  /**
   * Converts any thrown value to this class. A value that is no BatonError becomes `fallback`, with the original as
   * its cause.
   */
  static from(thrown: unknown, fallback: ErrorCode = 'runtime.internal'): BatonError {
    try {
      if (isTyped(thrown)) {
        return thrown instanceof BatonError && isSmall(thrown)
          ? thrown
          : BatonError.fromValue(valueOf(thrown))
      }
      const message = messageOf(thrown)
      return new BatonError(fallback, clipped(message), { cause: thrown })
    } catch {
      // Reached for a getter or proxy that throws.
      return new BatonError(fallback, NO_TEXT)
    }
  }
}

/**
 * The message of what was thrown, which need not be an error; of an AggregateError without one (for example when none of
 * a host's addresses answers), the messages of its parts.
 */
export function messageOf(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return safeText(thrown)
    const { message } = thrown
    const { errors } = thrown as { readonly errors?: unknown }
    if (message !== '' || !Array.isArray(errors)) return String(message)
    const parts = errors.slice(0, PARTS_MAX).map((part: unknown) => {
      return part instanceof Error ? part.message : String(part)
    })
    return errors.length > PARTS_MAX ? `${parts.join('; ')}; …` : parts.join('; ')
  } catch {
    // A getter or proxy that throws.
    return NO_TEXT
  }
}

/** `String(value)` for values of others: an object without a prototype, or with a `toString` that throws, has no text. */
export function safeText(value: unknown): string {
  try {
    return String(value)
  } catch {
    return NO_TEXT
  }
}

/** What was thrown as an error, for those who need one; any value may be thrown. */
export function errorOf(thrown: unknown): Error {
  try {
    if (thrown instanceof Error) return thrown
  } catch {
    // A proxy that throws.
  }
  return new Error(messageOf(thrown))
}

/**
 * True for a BatonError of another copy of this class, too: the program and the package that an engine imports are
 * separate bundles.
 */
export function isBatonError(thrown: unknown): thrown is BatonError {
  try {
    return isTyped(thrown)
  } catch {
    // A getter or proxy that throws.
    return false
  }
}

function isTyped(thrown: unknown): thrown is BatonError {
  if (!(thrown instanceof Error) || thrown.name !== 'BatonError') return false
  const { code } = thrown as { readonly code?: unknown }
  return typeof code === 'string' && isErrorCode(code)
}

function valueOf({ code, message, data }: BatonError): ErrorValue {
  const plain = plainData(data)
  return { code, message: clipped(message), ...(plain === null ? {} : { data: plain }) }
}

function isSmall({ message, data }: BatonError): boolean {
  if (typeof message !== 'string' || message.length > TEXT_MAX) return false
  const values: unknown[] = Object.values(data)
  return values.length <= DATA_MAX && values.every((value) => plainFact(value) === value)
}

/** The plain fields of the data; null if there is none. */
function plainData(data: ErrorData): ErrorData | null {
  try {
    const facts = Object.entries(data).flatMap(([key, value]) => {
      const fact = plainFact(value)
      return fact === undefined ? [] : [[key.slice(0, TEXT_MAX), fact] as const]
    })
    return facts.length === 0 ? null : Object.fromEntries(facts.slice(0, DATA_MAX))
  } catch {
    return null
  }
}

function plainFact(value: unknown): string | number | boolean | null | undefined {
  if (typeof value === 'string') return clipped(value)
  return value === null || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : undefined
}

function clipped(text: unknown): string {
  const whole = String(text)
  return whole.length <= TEXT_MAX ? whole : `${whole.slice(0, TEXT_MAX)}…`
}
