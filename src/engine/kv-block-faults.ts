/**
 * Checks what an engine's `kvBlocks` return: other processes read it as part of an offer, where an invalid value would
 * break the connection of all streams.
 */
import { BatonError, isRecord } from '../base/index.ts'
import type { KvBlockSource, KvPin } from './kv-block-source.ts'
import { shown } from './shown.ts'

/** Null: the pin is valid for a prompt of `promptTokens` tokens. */
export function kvPinFault(
  pin: Omit<KvPin, 'release'>,
  promptTokens: number,
  blockTokens: number,
): string | null {
  if (!isRecord(pin)) return 'no record'
  const { tokenCount, blockKeys, kvBytes } = pin
  const most = Math.max(0, promptTokens - 1)
  if (!isCount(tokenCount) || tokenCount > most) return `tokenCount is ${shown(tokenCount)}`
  if (!(blockKeys instanceof Uint32Array)) return 'blockKeys is no Uint32Array'
  const halves = 2 * Math.ceil(tokenCount / blockTokens)
  if (blockKeys.length !== halves) return `${blockKeys.length} halves of keys instead of ${halves}`
  return isCount(kvBytes) ? null : `kvBytes is ${shown(kvBytes)}`
}

/** Reads blocks; a block that cannot be read is not held. `onFault` is called at most once. */
export function checkedBlocks(
  source: KvBlockSource,
  onFault: (error: BatonError) => void,
): Pick<KvBlockSource, 'fingerprint' | 'blockTokens' | 'get'> {
  let isReported = false
  const report = (why: string): undefined => {
    if (isReported) return undefined
    isReported = true
    onFault(kvBlocksError(`get: ${why}`))
    return undefined
  }
  const { fingerprint, blockTokens } = source
  const get = (low: number, high: number): Uint8Array | undefined => {
    try {
      const bytes: unknown = source.get(low, high)
      if (bytes === undefined) return undefined
      if (!(bytes instanceof Uint8Array)) return report('no Uint8Array')
      // Memory that was transferred to another thread has no bytes, either.
      return bytes.length > 0 ? bytes : report('a block without bytes')
    } catch (thrown) {
      return report(BatonError.from(thrown).message)
    }
  }
  return { fingerprint, blockTokens, get }
}

export function kvBlocksError(what: string): BatonError {
  return new BatonError(
    'backend.contract_violation',
    `the engine violated the contract (kv-blocks-invalid): ${what}`,
    { data: { rule: 'kv-blocks-invalid' } },
  )
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
