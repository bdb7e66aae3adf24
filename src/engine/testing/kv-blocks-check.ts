/** Pins the KV blocks of a prompt and reads them, as a worker does for a hand-over. */
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
    return null
  } catch (thrown) {
    return thrownText(thrown)
  }
}
