/**
 * The sending process of `bench/transfer.ts`: a bare socket, the KV servers, and a worker that answers as fast as
 * possible.
 */
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'

import { KvTcpServer, TcpWorkerServer } from '../../src/network/index.ts'
import { finishChunk } from '../../src/request/index.ts'
import type { ReplyPort } from '../../src/wire/index.ts'

export const MB = 1024 * 1024
/** A block of KV, and one write of the bare socket. */
export const BLOCK = MB
export const PIECE = 512 * 1024
export const STREAMS = 64
export const STEPS = 20_000

export type ServerKind = 'tcp' | 'checked' | 'checkedNew'

export interface SenderAddress {
  readonly barePort: number
  readonly workerPort: number
  readonly controlPort: number
}

/** Prints its address as one line and serves until it is killed. */
export async function runSender(): Promise<void> {
  // As many as a prefill of 64 MB creates: they do not all fit into the sender's CPU cache.
  const blocks = Array.from({ length: 64 }, (_, seed) =>
    Uint8Array.from({ length: BLOCK }, (_, i) => (i * 7 + (i >> 8) + seed) & 0xff),
  )
  const [first = new Uint8Array(BLOCK)] = blocks
  const get = (keyLow: number): Uint8Array | undefined => blocks[keyLow % blocks.length]
  const source = { fingerprint: 'bench', blockTokens: 16, get }
  // New views of the blocks, so that no checksum is cached.
  const newSource = (): typeof source => {
    const views = Array.from({ length: 1_024 }, (_, key) => get(key)?.subarray())
    return { ...source, get: (keyLow) => views[keyLow] }
  }
  const leaseMs = 600_000
  const servers: Record<ServerKind, KvTcpServer> = {
    tcp: await KvTcpServer.listen({ leaseMs, checksum: false }),
    checked: await KvTcpServer.listen({ leaseMs, checksum: true }),
    checkedNew: await KvTcpServer.listen({ leaseMs, checksum: true }),
  }
  // For `kind bytes` it answers with an offer as one line of JSON; for `cpu` with the CPU µs of this process.
  const control = createServer((socket) => {
    createInterface({ input: socket }).on('line', (line) => {
      if (line === 'cpu') {
        const { user, system } = process.cpuUsage()
        socket.write(`${user + system}\n`)
        return
      }
      const [kind, bytes] = line.split(' ')
      const count = Number(bytes) / BLOCK
      const blockKeys = Uint32Array.from({ length: 2 * count }, (_, i) => (i % 2 ? 1 : i / 2))
      const pin = { tokenCount: 16 * count, blockKeys, kvBytes: Number(bytes), release: () => {} }
      const offer = servers[kind as ServerKind].offer(
        pin,
        kind === 'checkedNew' ? newSource() : source,
      )
      socket.write(`${JSON.stringify({ ...offer, blockKeys: [...blockKeys] })}\n`)
    })
  }).listen(0, '127.0.0.1')
  // For `bytes piece` it sends so many bytes in pieces of that size; with `turn`, one per turn of the event loop.
  const bare = createServer({ noDelay: true, highWaterMark: 4 * MB }, (socket) => {
    createInterface({ input: socket }).on('line', (line) => {
      const [bytes = 0, piece = PIECE] = line.split(' ', 2).map(Number)
      const isByTurn = line.endsWith('turn')
      let sent = 0
      const pump = (): void => {
        while (sent < bytes) {
          const block = piece === PIECE ? get(Math.floor(sent / BLOCK)) : first
          const at = piece === PIECE ? sent % BLOCK : 0
          const count = Math.min(bytes - sent, piece)
          sent += count
          const canTakeMore = socket.write((block ?? first).subarray(at, at + count))
          if (!canTakeMore) socket.once('drain', pump)
          else if (isByTurn) setImmediate(pump)
          if (!canTakeMore || isByTurn) return
        }
      }
      pump()
    })
  }).listen(0, '127.0.0.1')
  const worker = await TcpWorkerServer.listen({ handler: { serve: serveSteps() } })
  const address: SenderAddress = {
    barePort: (bare.address() as AddressInfo).port,
    workerPort: worker.port,
    controlPort: (control.address() as AddressInfo).port,
  }
  console.log(JSON.stringify(address))
}

/** When all streams are connected, every engine step sends each a token. */
function serveSteps() {
  let replies: ReplyPort[] = []
  const runStep = (steps: readonly ReplyPort[], left: number): void => {
    for (const reply of steps) {
      if (left > 0) reply.token(left)
      else reply.chunk(finishChunk('length'))
    }
    if (left > 0) setImmediate(() => runStep(steps, left - 1))
  }
  return (_request: unknown, reply: ReplyPort) => {
    replies.push(reply)
    if (replies.length === STREAMS) {
      const steps = replies
      replies = []
      setImmediate(() => runStep(steps, STEPS))
    }
    return { cancel: () => undefined }
  }
}
