/**
 * The time of each step of a KV transfer between the end of a prefill and the first token of the decode worker, one
 * after the other in one thread, with the real model and the real code.
 *
 * The waits between the steps (messages between threads and processes) are the row "messages": a round trip between
 * a thread and its owner, which each worker pays once.
 */
import { MessageChannel, Worker, receiveMessageOnPort } from 'node:worker_threads'

import { KvBlockStore, promptBlocks, tokensOfBlock } from '../../src/engine/index.ts'
import { compileLlamaCppOptions } from '../../src/llamacpp/model/llamacpp-options.ts'
import { parseState } from '../../src/llamacpp/state/state-codec.ts'
import { addressOf, stateOfBlocks, writeBlocks } from '../../src/llamacpp/thread/block-memory.ts'
import { openModel } from '../../src/llamacpp/thread/open-model.ts'
import type { OpenModel } from '../../src/llamacpp/thread/open-model.ts'
import { KvTcpClient, KvTcpServer } from '../../src/network/index.ts'
import { kvChecksum } from '../../src/wire/index.ts'

export interface StageRow {
  readonly stage: string
  /** By number of prompt tokens: the fastest of all rounds, and the median, in µs. */
  readonly [prompt: string]: string | number
}

const PROMPTS = [100, 500, 3000]
const BLOCK_TOKENS = 16
const SLOT = 0

export async function measureStages(modelPath: string, rounds: number): Promise<StageRow[]> {
  const model = openModel(compileLlamaCppOptions({ modelPath, sequences: 2 }))
  const server = await KvTcpServer.listen({ leaseMs: 600_000 })
  const client = new KvTcpClient()
  const rows = new Map<string, Record<string, string | number>>()
  try {
    for (const promptTokens of PROMPTS) {
      const taken = new Map<string, number[]>()
      for (let round = 0; round < rounds + 2; round++) {
        const stages = await handOver({ model, server, client, promptTokens, round })
        // The first two rounds compile the code.
        if (round < 2) continue
        for (const [stage, us] of stages) taken.set(stage, [...(taken.get(stage) ?? []), us])
      }
      for (const [stage, all] of taken) {
        const row = rows.get(stage) ?? { stage }
        const sorted = all.toSorted((a, b) => a - b)
        row[`${promptTokens} tokens, best`] = Math.round(sorted[0] ?? 0)
        row[`${promptTokens}, median`] = Math.round(sorted[sorted.length >> 1] ?? 0)
        rows.set(stage, row)
      }
    }
    const hop = await measureHop()
    rows.set('messages', { stage: 'messages: a round trip between two threads', ...hop })
  } finally {
    await client.close()
    await server.close()
    model.close()
  }
  return [...rows.values()] as unknown as StageRow[]
}

interface Parts {
  readonly model: OpenModel
  readonly server: KvTcpServer
  readonly client: KvTcpClient
  readonly promptTokens: number
  readonly round: number
}

async function handOver(parts: Parts): Promise<[string, number][]> {
  const { model, server, client, promptTokens, round } = parts
  const { session, layout } = model
  if (layout === undefined) throw new Error('this model has no blocks')
  const tokenIds = Uint32Array.from(
    { length: promptTokens },
    (_, i) => 4 + ((i * 31 + round * 17 + promptTokens) % 1900),
  )
  const count = promptTokens - 1
  for (let at = 0; at < count;) {
    const length = session.chunkLength(count - at)
    session.prefill(SLOT, at, tokenIds.subarray(at, at + length))
    at += length
  }
  const stages: [string, number][] = []
  const timed = <T>(stage: string, action: () => T): T => {
    const startedMs = performance.now()
    const value = action()
    stages.push([stage, (performance.now() - startedMs) * 1000])
    return value
  }
  const sizeOf = (index: number): number => tokensOfBlock(blocks, index) * layout.bytesPerToken
  const blocks = timed('prefill: hash the prompt (4 times on each side)', () =>
    promptBlocks(tokenIds, count, BLOCK_TOKENS),
  )
  const [from, to] = [storeOf(layout.bytesPerToken), storeOf(layout.bytesPerToken)]
  to.prepare(count * layout.bytesPerToken)
  const memory = Array.from({ length: blocks.blockCount }, (_, i) => from.allocate(sizeOf(i)))
  const blockMemory = {
    addresses: BigUint64Array.from(memory, (bytes) => addressOf(bytes)),
    ranges: Uint32Array.from(
      memory.flatMap((_, i) => [i * BLOCK_TOKENS, tokensOfBlock(blocks, i)]),
    ),
  }
  const saved = timed('prefill: state out of llama.cpp', () => session.saveState(SLOT))
  const state = timed('prefill: check the state', () => parseState(saved))
  timed('prefill: cut into blocks of fresh memory', () => writeBlocks(blockMemory, state))
  timed('the same, of memory that was touched', () => writeBlocks(blockMemory, state))
  const keyOf = (i: number): [number, number] => [
    blocks.keys[2 * i] ?? 0,
    blocks.keys[2 * i + 1] ?? 0,
  ]
  timed('prefill: blocks into the store', () => {
    for (let i = memory.length - 1; i >= 0; i--)
      from.put(...keyOf(i), tokensOfBlock(blocks, i), memory[i] as Uint8Array)
  })
  timed('prefill: checksums', () => {
    for (const bytes of memory) kvChecksum(bytes)
  })
  const pin = from.pin(tokenIds)
  const offer = server.offer(pin, from)
  // The server computes its checksums ahead, between the offer and the pull.
  await new Promise((resolve) => setTimeout(resolve, 30))
  const startedMs = performance.now()
  await client.pull(offer, to.missing(offer.blockKeys), {
    put: (i, bytes) => to.put(...keyOf(i), tokensOfBlock(blocks, i), bytes),
    allocate: (byteLength) => to.allocate(byteLength),
  })
  stages.push(['pull: both ends in one thread, sums made', (performance.now() - startedMs) * 1000])
  timed('of the pull: checksums compared', () => {
    for (const bytes of memory) kvChecksum(bytes)
  })
  session.clearSequence(SLOT)
  const held = Array.from({ length: blocks.blockCount }, (_, i) => to.get(...keyOf(i)))
  const heldMemory = {
    addresses: BigUint64Array.from(held, (bytes) => addressOf(bytes as Uint8Array)),
    ranges: blockMemory.ranges,
  }
  const made = timed('decode: state put together', () =>
    stateOfBlocks(heldMemory, layout, session.streamCount, (size) => session.stateMemory(size)),
  )
  timed('decode: state into llama.cpp', () => session.loadState(SLOT, made))
  timed('decode: first step', () =>
    session.decode([
      { sequence: SLOT, position: count, token: tokenIds[count] ?? 0, wantsLogits: true },
    ]),
  )
  session.clearSequence(SLOT)
  return stages
}

function storeOf(bytesPerToken: number): KvBlockStore {
  return new KvBlockStore({
    fingerprint: 'stages',
    blockTokens: BLOCK_TOKENS,
    bytesPerToken,
    capacityBytes: 64 * 1024 * 1024,
    createMemory: (byteLength) => Buffer.allocUnsafeSlow(byteLength),
  })
}

/** Like the engine's thread: asleep in its event loop. */
async function measureHop(): Promise<Record<string, number>> {
  const { port1, port2 } = new MessageChannel()
  const code = `const { workerData } = require('node:worker_threads'); workerData.on('message', (m) => workerData.postMessage(m))`
  const worker = new Worker(code, { eval: true, workerData: port2, transferList: [port2] })
  const trips: number[] = []
  for (let i = 0; i < 200; i++) {
    await new Promise((resolve) => setTimeout(resolve, 2))
    const startedMs = performance.now()
    const answered = new Promise((resolve) => port1.once('message', resolve))
    port1.postMessage([1, 2])
    await answered
    trips.push((performance.now() - startedMs) * 1000)
  }
  receiveMessageOnPort(port1)
  port1.close()
  await worker.terminate()
  trips.sort((a, b) => a - b)
  return { best: Math.round(trips[0] ?? 0), median: Math.round(trips[100] ?? 0) }
}
