/**
 * The memory of a waiting stream: many connections, each with a request whose answer takes minutes, and the
 * frontend's resident set before and after. The server collects its garbage at SIGUSR2 (`COLLECTS_ON_SIGNAL`).
 *
 * The connections are in this process, which only keeps them open: received data is read and dropped.
 */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { rssMegabytes } from '../load/process-cpu.ts'
import { median } from '../load/summary.ts'
import type { Target } from '../load/targets.ts'
import { bodyOf } from '../load/workloads.ts'

/** Opened at once; then the next batch. */
const BATCH = 100
/** With these Baton's young generation reaches its full size. */
const FIRST_STREAMS = 500
const SETTLE_MS = 8_000
const LOOK_EVERY_MS = 500

/** kB of the frontend's resident set for each of `count` streams that have started and wait for their next token. */
export async function kilobytesPerWaitingStream(target: Target, count: number): Promise<number> {
  // The first streams are not counted, because code, kernel buffers and spare heap pages are allocated with them.
  const first = await openStreams(target, FIRST_STREAMS)
  const before = await settledMegabytes(target)
  const streams = await openStreams(target, count)
  const after = await settledMegabytes(target)
  for (const socket of [...first, ...streams]) socket.destroy()
  return ((after - before) * 1024) / count
}

let seeds = 700_000_000

async function openStreams(target: Target, count: number): Promise<Socket[]> {
  const sockets: Socket[] = []
  while (sockets.length < count) {
    const batch = Array.from({ length: Math.min(BATCH, count - sockets.length) }, () =>
      openStream(target),
    )
    sockets.push(...(await Promise.all(batch)))
  }
  return sockets
}

/** Resolves at the first event: the stream has started. */
function openStream({ port, model }: Target): Promise<Socket> {
  const body = bodyOf({ model, words: 100, tokens: 100_000, stream: true }, ++seeds)
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('data', () => resolve(socket))
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('the server closed a stream')))
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
  })
}

/** After a garbage collection each; the median, because the streams go on meanwhile. */
async function settledMegabytes({ pid }: Target): Promise<number> {
  const looks: number[] = []
  for (let waited = 0; waited < SETTLE_MS; waited += LOOK_EVERY_MS) {
    process.kill(pid, 'SIGUSR2')
    await new Promise((done) => setTimeout(done, LOOK_EVERY_MS))
    looks.push(rssMegabytes(pid))
  }
  return median(looks)
}
