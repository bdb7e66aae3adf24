/**
 * The baseline of a frontend: a bare node:http server that receives from workers, over one connection each, when a
 * stream has a token, and writes the bytes of a reply. It neither routes nor tokenises nor stores anything.
 *
 * Arguments: the milliseconds between the tokens of a stream, and the number of workers. Prints its port. A worker
 * is a separate process that sends one frame per step: for each of its streams the number and how many tokens are
 * left.
 */
import { fork } from 'node:child_process'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import { connect, createServer as createTcpServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { EVENT } from './bare-events.ts'

const PAIR_BYTES = 8
const READ_BYTES = 64 * 1024
const [, file = '', itlText = '16', workersText = '2', role = 'frontend'] = process.argv

function runWorker(itlMs: number): void {
  const server = createTcpServer({ noDelay: true }, (socket) => {
    let live: { id: number; left: number }[] = []
    socket.on('data', (bytes: Buffer) => {
      for (let at = 0; at + PAIR_BYTES <= bytes.length; at += PAIR_BYTES) {
        live.push({ id: bytes.readUInt32LE(at), left: bytes.readUInt32LE(at + 4) })
      }
    })
    setInterval(() => {
      if (live.length === 0) return
      const frame = Buffer.allocUnsafe(live.length * PAIR_BYTES)
      live.forEach((stream, index) => {
        stream.left -= 1
        frame.writeUInt32LE(stream.id, index * PAIR_BYTES)
        frame.writeUInt32LE(stream.left, index * PAIR_BYTES + 4)
      })
      live = live.filter(({ left }) => left > 0)
      socket.write(frame)
    }, itlMs)
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
  process.once('disconnect', () => process.exit())
}

const streams: (ServerResponse | undefined)[] = []
const free: number[] = []

function takeToken(id: number, left: number): void {
  const res = streams[id]
  if (left > 0) {
    res?.write(EVENT, 'latin1')
    return
  }
  res?.end('data: [DONE]\n\n')
  streams[id] = undefined
  free.push(id)
}

async function startWorker(): Promise<Socket> {
  const child = fork(file, [itlText, workersText, 'worker'])
  const port = await new Promise<number>((resolve) => {
    child.once('message', (message) => resolve(message as number))
  })
  let rest = Buffer.alloc(0)
  const take = (count: number, into: Uint8Array): boolean => {
    const came = Buffer.from(into.buffer, into.byteOffset, count)
    const bytes = rest.length === 0 ? came : Buffer.concat([rest, came])
    let at = 0
    for (; at + PAIR_BYTES <= bytes.length; at += PAIR_BYTES) {
      takeToken(bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4))
    }
    rest = Buffer.from(bytes.subarray(at))
    return true
  }
  const onread = { buffer: Buffer.allocUnsafeSlow(READ_BYTES), callback: take }
  return connect({ port, host: '127.0.0.1', noDelay: true, onread })
}

async function runFrontend(): Promise<void> {
  const workers: Socket[] = []
  while (workers.length < Number(workersText)) workers.push(await startWorker())
  let turn = 0
  const server = createServer({ noDelay: true }, (req, res) => {
    const parts: Buffer[] = []
    req.on('data', (part: Buffer) => parts.push(part))
    req.on('end', () => {
      const asked = JSON.parse(Buffer.concat(parts).toString()) as { max_tokens: number }
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      const id = free.pop() ?? streams.length
      streams[id] = res
      const request = Buffer.alloc(PAIR_BYTES)
      request.writeUInt32LE(id, 0)
      request.writeUInt32LE(asked.max_tokens + 2, 4)
      workers[turn++ % workers.length]?.write(request)
    })
  })
  server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
}

if (role === 'worker') runWorker(Number(itlText))
else await runFrontend()
