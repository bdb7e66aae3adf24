/**
 * From the end of the prefill to the first token of the decode worker, on the real engine and by the real way: request
 * plane → prefill worker → offer → request plane → decode worker → pull → first token. Both workers are processes.
 *
 * Beside it the same request once more at the decode worker, which then holds the prompt already: what the hand-over
 * itself adds is the difference.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { workerIdOf } from '../../src/base/index.ts'
import {
  HostedWorker,
  LlamaCppEngine,
  MemoryDiscovery,
  TcpRequestPlane,
  openKvTcp,
} from '../../src/host/index.ts'
import type { Chunk, GenerateRequest, WorkerCard } from '../../src/request/index.ts'
import { median, rounded } from '../load/summary.ts'

export interface HandOverRow {
  readonly promptTokens: number
  readonly via: string
  readonly kvKB: number
  /** Medians in ms. */
  readonly prefillMs: number
  readonly prefillEndToFirstToken: number
  readonly firstTokenWhenHeld: number
  readonly handOverAdds: number
}

type Mode = 'prefill' | 'decode'

const MODEL = 'models/storyteller/storyteller-q8_0.gguf'
const PROMPTS = [100, 500, 1500]

/** The worker's process: says its address as one line and serves until it is killed. */
export async function runHandOverWorker(mode: Mode, shmDir: string): Promise<void> {
  const hosted = new HostedWorker({
    engine: new LlamaCppEngine({ modelPath: MODEL, mode }),
    engineName: 'llamacpp',
    mode,
    plane: { kind: 'tcp', host: '127.0.0.1', port: 0 },
    discovery: new MemoryDiscovery(),
    version: '0.0.0',
    openKv: (role) => openKvTcp(role, { host: '127.0.0.1', ...(shmDir ? { shmDir } : {}) }),
  })
  const { workerId, host, port } = await hosted.start()
  console.log(JSON.stringify({ workerId, host, port }))
}

interface Timed {
  readonly firstMs: number
  readonly endMs: number
  readonly last: Chunk
}

export async function measureHandOver(rounds: number, shmDir: string): Promise<HandOverRow[]> {
  const children: ChildProcess[] = []
  const plane = new TcpRequestPlane()
  try {
    const start = async (mode: Mode): Promise<WorkerCard['workerId']> => {
      const main = fileURLToPath(new URL('../transfer.ts', import.meta.url))
      const args = ['--import', 'tsx', main, '--worker', mode, '--shm', shmDir]
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
    const [from, to] = [await start('prefill'), await start('decode')]
    const rows: HandOverRow[] = []
    for (const promptTokens of PROMPTS) rows.push(await measureOne(promptTokens, shmDir))
    return rows

    async function measureOne(promptTokens: number, shm: string): Promise<HandOverRow> {
      const taken: { prefill: number; cold: number; held: number; kvBytes: number }[] = []
      for (let round = 0; round < rounds + 1; round++) {
        const request = requestOf(promptTokens)
        const prefill = await time(plane, from, { ...request, stop: { maxTokens: 1 } })
        const { prefillResult } = prefill.last
        if (!prefillResult?.kvOffer) throw new Error('the prefill worker gave no offer')
        const { kvBytes } = prefillResult.kvOffer
        const cold = await time(plane, to, { ...request, prefillResult })
        const again = { ...request, requestId: `${request.requestId}-again` }
        const held = await time(plane, to, again)
        // The first of all warms the engines up.
        if (round === 0) continue
        taken.push({ prefill: prefill.endMs, cold: cold.firstMs, held: held.firstMs, kvBytes })
      }
      const [cold, held] = [median(taken.map((t) => t.cold)), median(taken.map((t) => t.held))]
      return {
        promptTokens,
        via: shm ? 'shm' : 'tcp',
        kvKB: Math.round((taken[0]?.kvBytes ?? 0) / 1024),
        prefillMs: rounded(median(taken.map((t) => t.prefill))),
        prefillEndToFirstToken: rounded(cold),
        firstTokenWhenHeld: rounded(held),
        handOverAdds: rounded(cold - held),
      }
    }
  } finally {
    await plane.close()
    for (const child of children) child.kill()
  }
}

let requests = 0

/** Every prompt is new, so no cache helps. */
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
        if (chunk.finish === undefined) return
        resolve({ firstMs, endMs: performance.now() - startedAt, last: chunk })
      },
      onError: reject,
    })
  })
}
