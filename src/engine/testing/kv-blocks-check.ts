/**
 * Pins the KV blocks of a prompt and reads them, as a worker does for a hand-over, and asks for the same prompt of
 * another tenant and of an adapter, which must not get them.
 */
import { checkedBlocks, kvPinFault } from '../kv-block-faults.ts'
import type { KvBlockSource } from '../kv-block-source.ts'
import type { ConformanceSubject } from './conformance-subject.ts'
import { thrownText } from './thrown-text.ts'

export async function checkKvBlocks(subject: ConformanceSubject): Promise<void> {
  const { engine, report } = subject
  if (engine.kvBlocks === undefined) {
    report.skip('kv-blocks', 'the engine hands over no blocks')
    return
  }
  const request = subject.request(2)
  await subject.read(request)
  const fault = pinnedFault(engine.kvBlocks, request.tokenIds)
  if (fault !== null) report.fail('kv-blocks-invalid', fault)
}

function pinnedFault(source: KvBlockSource, tokenIds: Uint32Array): string | null {
  try {
    const pin = source.pin(tokenIds)
    const fault = kvPinFault(pin, tokenIds.length, source.blockTokens)
    if (fault !== null) return `pin: ${fault}`
    let unread: string | null = null
    const blocks = checkedBlocks(source, ({ message }) => (unread = message))
    const { blockKeys } = pin
    for (let at = 0; at < blockKeys.length; at += 2) {
      if (blocks.get(blockKeys[at] ?? 0, blockKeys[at + 1] ?? 0) !== undefined) continue
      return unread ?? `get: block ${at / 2} is pinned, but not held`
    }
    for (let times = 0; times < 2; times++) pin.release()
    return sharedFault(source, tokenIds, blockKeys)
  } catch (thrown) {
    return thrownText(thrown)
  }
}

/** The same KV under one key for two tenants lets one probe what the other asked; for an adapter it is wrong. */
function sharedFault(
  source: KvBlockSource,
  tokenIds: Uint32Array,
  blockKeys: Uint32Array,
): string | null {
  const others = [
    ['with a `salt`', ['conformance-tenant']],
    ['with a `loraName`', [undefined, 'conformance-adapter']],
  ] as const
  const count = tokenIds.length - 1
  const plain = keysOf(() => source.keysOf?.(tokenIds, count))
  for (const [whose, names] of others) {
    const held = keysOf(() => pinnedKeys(source, tokenIds, names))
    if (haveOneKey(held, blockKeys)) return `pin: ${whose} it gives the blocks without one`
    const named = keysOf(() => source.keysOf?.(tokenIds, count, ...names))
    if (haveOneKey(named, plain)) return `keysOf: ${whose} it gives the keys without one`
  }
  return null
}

function pinnedKeys(
  source: KvBlockSource,
  tokenIds: Uint32Array,
  names: readonly [salt?: string | undefined, loraName?: string],
): Uint32Array {
  const pin = source.pin(tokenIds, ...names)
  pin.release()
  return pin.blockKeys
}

/** None if the source refuses, as it may for an adapter that it does not have. */
function keysOf(ask: () => Uint32Array | undefined): Uint32Array {
  try {
    return ask() ?? NO_KEYS
  } catch {
    return NO_KEYS
  }
}

function haveOneKey(some: Uint32Array, others: Uint32Array): boolean {
  const keys = new Set(keyTexts(others))
  return keyTexts(some).some((key) => keys.has(key))
}

function keyTexts(keys: Uint32Array): readonly string[] {
  return Array.from({ length: keys.length >> 1 }, (_, i) => `${keys[2 * i]}:${keys[2 * i + 1]}`)
}

const NO_KEYS = new Uint32Array(0)
