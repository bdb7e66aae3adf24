/**
 * Time from the end of the prefill to the first token of the decode worker, with the real engine and the real path:
 * request plane → prefill worker → offer → request plane → decode worker → pull → first token. Both workers are processes.
 *
 * The decode worker gets its request as soon as the prefill worker makes its offer, possibly before the prompt is
 * completely computed.
 *
 * Two comparisons: the same request once more at the decode worker, which then has the prompt cached (the difference is
 * the cost of the hand-over itself), and a prompt of the same length that one worker computes and answers (the difference
 * is what two workers add to the time to first token that a client sees).
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { workerIdOf } from '../../src/base/index.ts'
import { HostedWorker } from '../../src/host/index.ts'
import { LlamaCppEngine } from '../../src/llamacpp/index.ts'
import { MemoryDiscovery } from '../../src/discovery/index.ts'
import { TcpRequestPlane, openKvTcp } from '../../src/network/index.ts'
import type { Chunk, GenerateRequest, WorkerCard } from '../../src/request/index.ts'
import { median, rounded } from '../load/summary.ts'

export interface HandOverRow {
  readonly promptTokens: number
  readonly kvKB: number
  /** Medians in ms. */
  readonly prefillMs: number
  readonly prefillEndToFirstToken: number
  readonly firstTokenWhenHeld: number
  readonly handOverAdds: number
  /** The fastest of all rounds: the time without other load. */
  readonly atBest: number
  /** Time to the first token over both workers, and with one worker: medians and the fastest. */
  readonly twoWorkers: number
  readonly oneWorker: number
  readonly twoWorkersAtBest: number
  readonly oneWorkerAtBest: number
}

type Mode = 'prefill' | 'decode'

const MODEL = 'models/storyteller/storyteller-q8_0.gguf'
const PROMPTS = [100, 500, 3000]

/** The worker's process: prints its address as one line and serves until it is killed. */
export async function runHandOverWorker(mode: Mode): Promise<void> {
  const hosted = new HostedWorker({
    engine: new LlamaCppEngine({ modelPath: MODEL, mode }),
    engineName: 'llamacpp',
    mode,
    plane: { kind: 'tcp', host: '127.0.0.1', port: 0 },
    discovery: new MemoryDiscovery(),
    version: '0.0.0',
    openKv: (role) => openKvTcp(role, { host: '127.0.0.1' }),
  })
  const { workerId, host, port } = await hosted.start()
  console.log(JSON.stringify({ workerId, host, port }))
}

interface Timed {
  readonly firstAt: number
  readonly firstMs: number
  readonly endMs: number
}

export async function measureHandOver(rounds: number): Promise<HandOverRow[]> {
  const pair = await openPair()
  try {
    const rows: HandOverRow[] = []
    for (const promptTokens of PROMPTS) {
      // The first request warms the engines up.
      await takeOne(pair, promptTokens)
      const taken: Taken[] = []
      for (let round = 0; round < rounds; round++) taken.push(await takeOne(pair, promptTokens))
      rows.push(rowOf(promptTokens, taken))
    }
    return rows
  } finally {
    await pair.close()
  }
}

interface Pair {
  readonly plane: TcpRequestPlane
  readonly from: WorkerCard['workerId']
  readonly to: WorkerCard['workerId']
  close(): Promise<void>
}

async function openPair(): Promise<Pair> {
  const children: ChildProcess[] = []
  const plane = new TcpRequestPlane()
  const start = async (mode: Mode): Promise<WorkerCard['workerId']> => {
    const main = fileURLToPath(new URL('../transfer.ts', import.meta.url))
    const args = ['--import', 'tsx', main, '--worker', mode]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    for await (const line of createInterface({ input: child.stdout })) {
      const card = JSON.parse(line) as { workerId: string; host: string; port: number }
      const workerId = workerIdOf(BigInt(card.workerId))
      plane.workerJoined({ ...card, workerId })
      return workerId
    }
    throw new Error(`the ${mode} worker did not start`)
  }
  return {
    plane,
    from: await start('prefill'),
    to: await start('decode'),
    close: async () => {
      await plane.close()
      for (const child of children) child.kill()
    },
  }
}

interface Taken {
  readonly prefill: number
  /** From the end of the prefill. */
  readonly cold: number
  readonly held: number
  readonly both: number
  readonly one: number
  readonly kvBytes: number
}

async function takeOne({ plane, from, to }: Pair, promptTokens: number): Promise<Taken> {
  const request = requestOf(promptTokens)
  const startedAt = performance.now()
  let kvBytes = 0
  let decode: Promise<number> | undefined
  const told = (chunk: Chunk): void => {
    const { prefillResult } = chunk
    if (prefillResult?.kvOffer === undefined || decode !== undefined) return
    kvBytes = prefillResult.kvOffer.kvBytes
    decode = time(plane, to, { ...request, prefillResult }).then(({ firstAt }) => firstAt)
  }
  const prefill = await time(plane, from, { ...request, stop: { maxTokens: 1 } }, told)
  if (decode === undefined) throw new Error('the prefill worker gave no offer')
  const firstAt = await decode
  const held = await time(plane, to, { ...request, requestId: `${request.requestId}-again` })
  const one = await time(plane, to, requestOf(promptTokens))
  return {
    prefill: prefill.endMs,
    cold: firstAt - startedAt - prefill.endMs,
    held: held.firstMs,
    both: firstAt - startedAt,
    one: one.firstMs,
    kvBytes,
  }
}

function rowOf(promptTokens: number, taken: readonly Taken[]): HandOverRow {
  const [cold, held] = [median(taken.map((t) => t.cold)), median(taken.map((t) => t.held))]
  const best = Math.min(...taken.map((t) => t.cold)) - Math.min(...taken.map((t) => t.held))
  return {
    promptTokens,
    kvKB: Math.round((taken[0]?.kvBytes ?? 0) / 1024),
    prefillMs: rounded(median(taken.map((t) => t.prefill))),
    prefillEndToFirstToken: rounded(cold),
    firstTokenWhenHeld: rounded(held),
    handOverAdds: rounded(cold - held),
    atBest: rounded(best),
    twoWorkers: rounded(median(taken.map((t) => t.both))),
    oneWorker: rounded(median(taken.map((t) => t.one))),
    twoWorkersAtBest: rounded(Math.min(...taken.map((t) => t.both))),
    oneWorkerAtBest: rounded(Math.min(...taken.map((t) => t.one))),
  }
}

let requests = 0

/** Every prompt is new, so no cache is used. */
function requestOf(promptTokens: number): GenerateRequest {
  requests += 1
  return {
    requestId: `request-${requests}`,
    model: 'bench',
    tokenIds: Uint32Array.from(
      { length: promptTokens },
      (_, i) => 4 + ((i * 31 + requests * 17) % 1900),
    ),
    sampling: { temperature: 0 },
    stop: { maxTokens: 8, ignoreEos: true },
    output: {},
    eosTokenIds: [],
    routing: {},
  }
}

function time(
  plane: TcpRequestPlane,
  workerId: WorkerCard['workerId'],
  request: GenerateRequest,
  onChunk: (chunk: Chunk) => void = () => undefined,
): Promise<Timed> {
  const startedAt = performance.now()
  let firstMs = 0
  const noteFirst = (): void => {
    if (firstMs === 0) firstMs = performance.now() - startedAt
  }
  return new Promise((resolve, reject) => {
    plane.send(workerId, request, {
      onToken: noteFirst,
      onChunk: (chunk) => {
        if (chunk.tokenIds.length > 0) noteFirst()
        onChunk(chunk)
        if (chunk.finish === undefined) return
        resolve({ firstMs, firstAt: startedAt + firstMs, endMs: performance.now() - startedAt })
      },
      onError: reject,
    })
  })
}
