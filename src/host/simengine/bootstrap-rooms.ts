/**
 * The bootstrap rooms in which simulated prefill and decode workers meet, over TCP.
 *
 * A decode worker connects to the prefill worker's bootstrap port, sends the room's number (u64, little-endian), and
 * waits for one byte, 1: the prompt has been computed. Nothing else is sent; there is no KV to transfer.
 */
import { createConnection, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { BatonError } from '../../base/index.ts'
import type { SimBootstrap } from '../../simengine/index.ts'
import type { BootstrapInfo } from '../../request/index.ts'
import { listenOn } from '../../network/index.ts'

const SPARE_BYTES = 8
const DONE = Uint8Array.of(1)
/** A connection that sends no room number within this time is closed. */
const ROOM_DEADLINE_MS = 30_000
const CONNECTIONS_MAX = 4096

export class BootstrapRooms implements SimBootstrap {
  readonly #host: string
  #server: Server | null = null
  readonly #sockets = new Set<Socket>()
  /** Decode workers that wait for their prompt. */
  readonly #waiting = new Map<bigint, Socket>()
  /** Computed prompts that wait for their decode worker. */
  readonly #ready = new Map<bigint, (decode: Socket) => void>()
  #isClosed = false

  constructor(host: string) {
    this.#host = host
  }

  async listen(port: number): Promise<{ host: string; port: number }> {
    const server = createServer({ noDelay: true }, (socket) => this.#onConnection(socket))
    server.maxConnections = CONNECTIONS_MAX
    await listenOn(server, this.#host, port)
    this.#server = server
    return { host: this.#host, port: (server.address() as AddressInfo).port }
  }

  async complete(room: string, gone: AbortSignal): Promise<void> {
    const number = capacityOf(room)
    const decode = this.#waiting.get(number) ?? (await this.#decodeOf(number, gone))
    this.#waiting.delete(number)
    decode.end(DONE)
  }

  join({ host, port, room }: BootstrapInfo, gone: AbortSignal): Promise<void> {
    const number = capacityOf(room)
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        socket.destroy()
        const text = `bootstrap room ${room} of ${host}:${port}: ${why}`
        reject(new BatonError('kv.transfer_failed', text))
      }
      const socket = createConnection({
        host: host.replace(/^\[(.*)\]$/, '$1'),
        port,
        noDelay: true,
      })
      this.#keep(socket)
      gone.addEventListener('abort', () => fail('the request has ended'), { once: true })
      socket.on('error', (error) => fail(error.message))
      socket.on('close', () => fail('the prefill worker closed the connection'))
      socket.once('data', (bytes) => {
        if (bytes[0] !== DONE[0]) return fail('the answer is not that of a prefill worker')
        resolve()
        socket.destroy()
      })
      socket.write(bytesOf(number))
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const socket of this.#sockets) socket.destroy()
    const server = this.#server
    if (server === null) return
    this.#server = null
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }

  #decodeOf(room: bigint, gone: AbortSignal): Promise<Socket> {
    return new Promise((resolve, reject) => {
      this.#ready.set(room, resolve)
      gone.addEventListener(
        'abort',
        () => {
          if (this.#ready.get(room) === resolve) this.#ready.delete(room)
          reject(new BatonError('kv.transfer_failed', `no peer joined bootstrap room ${room}`))
        },
        { once: true },
      )
    })
  }

  #onConnection(socket: Socket): void {
    this.#keep(socket)
    let received = Buffer.alloc(0)
    socket.setTimeout(ROOM_DEADLINE_MS, () => socket.destroy())
    socket.on('error', () => socket.destroy())
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes.subarray(0, SPARE_BYTES + 1)])
      if (received.length < SPARE_BYTES) return
      socket.setTimeout(0)
      if (received.length > SPARE_BYTES) socket.destroy()
      else this.#onCapacity(received.readBigUInt64LE(), socket)
    })
  }

  #onCapacity(room: bigint, decode: Socket): void {
    const ready = this.#ready.get(room)
    if (ready !== undefined) {
      this.#ready.delete(room)
      ready(decode)
      return
    }
    // Room numbers are random, so a second use of a number is an error.
    if (this.#waiting.has(room)) {
      decode.destroy()
      return
    }
    this.#waiting.set(room, decode)
    decode.on('close', () => {
      if (this.#waiting.get(room) === decode) this.#waiting.delete(room)
    })
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('close', () => this.#sockets.delete(socket))
    if (this.#isClosed) socket.destroy()
  }
}

function capacityOf(text: string): bigint {
  if (/^\d{1,20}$/.test(text)) {
    const number = BigInt(text)
    if (BigInt.asUintN(64, number) === number) return number
  }
  throw new BatonError(
    'backend.invalid_argument',
    `a bootstrap room is invalid: expected a u64, got '${text}'`,
  )
}

function bytesOf(room: bigint): Buffer {
  const bytes = Buffer.alloc(SPARE_BYTES)
  bytes.writeBigUInt64LE(room)
  return bytes
}
