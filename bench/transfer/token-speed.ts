/**
 * TOKENS frames from a worker's `token()` to the frontend's sink, compared with the same bytes through a bare socket: one
 * write per turn of the event loop, as engine steps do it, and in bulk.
 */
import { workerIdOf } from '../../src/base/index.ts'
import { TcpRequestPlane } from '../../src/network/index.ts'
import { median, rounded } from '../load/summary.ts'
import { BareReader } from './bare-reader.ts'
import { STEPS, STREAMS } from './sender.ts'
import type { SenderAddress } from './sender.ts'

export interface TokenRow {
  readonly frames: number
  readonly tokensPerFrame: number
  readonly framesPerSecond: number
  readonly microsPerFrame: number
  /** The same bytes, one write per turn of the event loop, as engine steps do it. */
  readonly bareMicrosPerFrame: number
  /** Median over the rounds of one run of each. */
  readonly ratio: number
  /** The same bytes as fast as a socket takes them, many frames in one system call. */
  readonly bulkMicrosPerFrame: number
  readonly ratioToBulk: number
}

export async function measureTokens(address: SenderAddress, rounds: number): Promise<TokenRow> {
  const worker = workerIdOf(1)
  const plane = new TcpRequestPlane()
  plane.workerJoined({ workerId: worker, host: '127.0.0.1', port: address.workerPort })
  const run = async (): Promise<number> => {
    let tokens = 0
    let firstAt = 0
    const onToken = (): void => {
      if (tokens === 0) firstAt = performance.now()
      tokens += 1
    }
    const ends = Array.from({ length: STREAMS }, (_, i) => {
      const request = {
        requestId: `r${i}`,
        model: 'bench',
        tokenIds: new Uint32Array(4),
        sampling: {},
        stop: {},
        output: {},
        eosTokenIds: [],
        routing: {},
      }
      return new Promise<void>((onChunk, onError) => {
        plane.send(worker, request, { onToken, onChunk: () => onChunk(), onError })
      })
    })
    await Promise.all(ends)
    if (tokens !== STREAMS * STEPS) throw new Error(`${tokens} tokens`)
    return (performance.now() - firstAt) / 1_000
  }
  const frameBytes = 8 + 8 * STREAMS
  const bare = new BareReader(address)
  const taken: { own: number; bare: number; bulk: number }[] = []
  for (let round = 0; round < rounds; round++) {
    const bulk = await bare.read(STEPS * frameBytes, frameBytes)
    const byTurn = await bare.read(STEPS * frameBytes, `${frameBytes} turn`)
    taken.push({ bulk, bare: byTurn, own: await run() })
  }
  bare.close()
  await plane.close()
  const micros = (seconds: number): number => rounded((seconds / STEPS) * 1e6)
  const own = median(taken.map((t) => t.own))
  return {
    frames: STEPS,
    tokensPerFrame: STREAMS,
    framesPerSecond: Math.round(STEPS / own),
    microsPerFrame: micros(own),
    bareMicrosPerFrame: micros(median(taken.map((t) => t.bare))),
    ratio: rounded(median(taken.map((t) => t.own / t.bare))),
    bulkMicrosPerFrame: micros(median(taken.map((t) => t.bulk))),
    ratioToBulk: rounded(median(taken.map((t) => t.own / t.bulk))),
  }
}
