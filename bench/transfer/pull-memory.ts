/**
 * The cost of untouched memory for a pull: pulls of a prompt of 500 and of 3,000 tokens of the shipped model (blocks
 * of 48 KiB) into a block store that is not full, with and without memory prepared ahead (`KvBlockStore.prepare`),
 * in turns.
 *
 * Both ends are in this process, so the milliseconds are the sum of both.
 */
import { KvBlockStore } from '../../src/engine/index.ts'
import { KvTcpClient, KvTcpServer } from '../../src/network/index.ts'
import { median, rounded } from '../load/summary.ts'

export interface PullMemoryRow {
  readonly promptTokens: number
  readonly kvKB: number
  readonly freshMs: number
  readonly freshMsAtBest: number
  readonly preparedMs: number
  readonly preparedMsAtBest: number
  /** CPU of both ends, medians. */
  readonly freshCpuMs: number
  readonly preparedCpuMs: number
}

const BLOCK_TOKENS = 16
const BLOCK_BYTES = 48 * 1024

export async function measurePullMemory(rounds: number): Promise<PullMemoryRow[]> {
  const server = await KvTcpServer.listen({ leaseMs: 600_000 })
  const client = new KvTcpClient()
  try {
    const rows: PullMemoryRow[] = []
    for (const promptTokens of [500, 3000]) {
      const pull = pullOf(server, client, Math.ceil(promptTokens / BLOCK_TOKENS))
      // The first pull connects, and during the first ones the code is compiled.
      for (let i = 0; i < 5; i++) await pull(i % 2 === 0)
      const fresh: Timed[] = []
      const prepared: Timed[] = []
      for (let round = 0; round < rounds; round++) {
        fresh.push(await pull(false))
        prepared.push(await pull(true))
      }
      const kvKB = (Math.ceil(promptTokens / BLOCK_TOKENS) * BLOCK_BYTES) / 1024
      const best = (all: readonly Timed[]) => rounded(Math.min(...all.map(({ ms }) => ms)))
      rows.push({
        promptTokens,
        kvKB,
        freshMs: rounded(median(fresh.map(({ ms }) => ms))),
        freshMsAtBest: best(fresh),
        preparedMs: rounded(median(prepared.map(({ ms }) => ms))),
        preparedMsAtBest: best(prepared),
        freshCpuMs: rounded(median(fresh.map(({ cpuMs }) => cpuMs))),
        preparedCpuMs: rounded(median(prepared.map(({ cpuMs }) => cpuMs))),
      })
    }
    return rows
  } finally {
    await client.close()
    await server.close()
  }
}

interface Timed {
  readonly ms: number
  readonly cpuMs: number
}

function pullOf(server: KvTcpServer, client: KvTcpClient, blocks: number) {
  const held = Array.from({ length: blocks }, (_, i) => Buffer.alloc(BLOCK_BYTES, i))
  const source = {
    fingerprint: 'bench',
    blockTokens: BLOCK_TOKENS,
    get: (key: number) => held[key],
  }
  const blockKeys = Uint32Array.from({ length: 2 * blocks }, (_, i) => (i % 2 ? 1 : i / 2))
  const kvBytes = blocks * BLOCK_BYTES
  const missing = Array.from({ length: blocks }, (_, i) => i)
  // Kept alive, so that no pull reuses the memory of an earlier one.
  const stores: KvBlockStore[] = []
  return async (isPrepared: boolean): Promise<Timed> => {
    const store = new KvBlockStore({
      fingerprint: 'bench',
      blockTokens: BLOCK_TOKENS,
      bytesPerToken: BLOCK_BYTES / BLOCK_TOKENS,
      capacityBytes: 256 * 1024 * 1024,
      createMemory: (byteLength) => Buffer.allocUnsafeSlow(byteLength),
    })
    stores.push(store)
    if (isPrepared) store.prepare(kvBytes)
    const pin = { tokenCount: BLOCK_TOKENS * blocks, blockKeys, kvBytes, release: () => {} }
    const offer = server.offer(pin, source)
    const cpu = process.cpuUsage()
    const startedMs = performance.now()
    await client.pull(offer, missing, {
      put: (index, bytes) => store.put(index, 1, BLOCK_TOKENS, bytes),
      allocate: (byteLength) => store.allocate(byteLength),
    })
    const ms = performance.now() - startedMs
    const { user, system } = process.cpuUsage(cpu)
    return { ms, cpuMs: (user + system) / 1000 }
  }
}
