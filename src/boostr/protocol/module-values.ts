/**
 * Checks what the functions of a user's module hand over. It may be any value; one that is not checked here would be
 * thrown on by the code that sends it, and end the process with the requests of all others.
 */
import { TOKEN_END, TOKEN_EOS } from './boostr-message.ts'

/** Throws if it is not the KV of a prompt, or if it is an error. */
export function prefilledKv(given: unknown): Uint8Array {
  if (isBytes(given)) return given
  if (given instanceof Error) throw given
  throw new TypeError(`done was called with ${kindOf(given)} instead of a Uint8Array`)
}

export interface CheckedStep {
  readonly tokenId: bigint
  readonly kv: Uint8Array
}

/** Null: the sequence has ended. Throws if it is not the result of a step. */
export function checkedStep(given: unknown, kvBytesMax: number): CheckedStep | null {
  const { tokenId, kv } = recordOf(given)
  if (typeof tokenId !== 'bigint') {
    throw new TypeError(`decodeStep returned ${kindOf(tokenId)} as tokenId instead of a bigint`)
  }
  if (tokenId === TOKEN_EOS || tokenId === TOKEN_END) return null
  if (BigInt.asIntN(64, tokenId) !== tokenId) {
    throw new RangeError('decodeStep returned a tokenId that has more than 64 bits')
  }
  if (!isBytes(kv)) {
    throw new TypeError(`decodeStep returned ${kindOf(kv)} as kv instead of a Uint8Array`)
  }
  if (kv.length > kvBytesMax) {
    throw new RangeError(`decodeStep returned ${kv.length} bytes of KV: at most ${kvBytesMax}`)
  }
  return { tokenId, kv }
}

/** Calls `onRejected` if it is a promise that is rejected. Nobody else handles that, and it would end the process. */
export function watchRejection(returned: unknown, onRejected: (reason: unknown) => void): void {
  if (typeof returned !== 'object' || returned === null) return
  // Not its own `catch`, which it may have replaced.
  new Promise((resolve) => resolve(returned)).catch(onRejected)
}

/** Not `instanceof` alone: it is true for objects that only inherit from bytes. */
function isBytes(value: unknown): value is Uint8Array {
  return ArrayBuffer.isView(value) && value instanceof Uint8Array
}

function recordOf(given: unknown): { readonly tokenId?: unknown; readonly kv?: unknown } {
  if (given instanceof Promise) throw new TypeError('decodeStep returned a promise')
  if (typeof given === 'object' && given !== null) return given
  throw new TypeError(`decodeStep returned ${kindOf(given)} instead of { tokenId, kv }`)
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value)
  return typeof value === 'object' ? 'another object' : `a ${typeof value}`
}
