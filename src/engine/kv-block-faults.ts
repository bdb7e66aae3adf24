/**
 * Checks what an engine's `kvBlocks` return: other processes read it as part of an offer, where an invalid value would
 * break the connection of all streams. Each field is read once, and typed arrays by their memory.
 */
import { BatonError, isRecord } from '../base/index.ts'
import type { KvBlockSource, KvPin } from './kv-block-source.ts'
import { quoted } from './shown.ts'
import { isTypedArray, ordinaryArray, typedArrayCopy, typedArrayLength } from './typed-array.ts'

/** What a pin holds, as the worker's own, because it is kept as long as the offer. */
type PinnedBlocks = Omit<KvPin, 'release'>

/** The blocks of a valid pin for a prompt of `promptTokens` tokens, or what is wrong with it. */
export function ownPinnedBlocks(
  pin: PinnedBlocks,
  promptTokens: number,
  blockTokens: number,
): PinnedBlocks | string {
  if (!isRecord(pin)) return 'no record'
  const { tokenCount, blockKeys, kvBytes } = pin
  const most = Math.max(0, promptTokens - 1)
  if (!isCount(tokenCount) || tokenCount > most) return `tokenCount is ${quoted(tokenCount)}`
  if (!isTypedArray(blockKeys, 'Uint32Array')) return 'blockKeys is no Uint32Array'
  const halves = 2 * Math.ceil(tokenCount / blockTokens)
  const given = typedArrayLength(blockKeys)
  if (given !== halves) return `${given} halves of keys instead of ${halves}`
  if (!isCount(kvBytes)) return `kvBytes is ${quoted(kvBytes)}`
  return { tokenCount, blockKeys: typedArrayCopy(blockKeys, 'Uint32Array'), kvBytes }
}

export function kvPinFault(
  pin: PinnedBlocks,
  promptTokens: number,
  blockTokens: number,
): string | null {
  const own = ownPinnedBlocks(pin, promptTokens, blockTokens)
  return typeof own === 'string' ? own : null
}

/** The indexes that `missing` returned for so many blocks. Throws if they are not indexes of these blocks. */
export function ownIndexes(given: unknown, blockCount: number): number[] {
  if (!Array.isArray(given)) throw kvBlocksError('missing: not a list')
  const { length } = given as readonly unknown[]
  if (!(length <= blockCount)) throw kvBlocksError(`missing: ${length} of ${blockCount} blocks`)
  const own: number[] = []
  for (let i = 0; i < length; i++) {
    const index: unknown = given[i]
    if (!isCount(index) || index >= blockCount) throw kvBlocksError(`missing: ${quoted(index)}`)
    own.push(index)
  }
  return own
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
      if (!isTypedArray(bytes, 'Uint8Array')) return report('no Uint8Array')
      // Memory that was transferred to another thread has no bytes, either.
      if (typedArrayLength(bytes) === 0) return report('a block without bytes')
      return ordinaryArray(bytes, 'Uint8Array')
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
