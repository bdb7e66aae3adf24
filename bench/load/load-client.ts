/**
 * A load generator in its own process: raw sockets with keep-alive, so that it uses little CPU compared with the server.
 *
 * Reads a JSON `LoadSpec` from standard input. Prints one JSON `LoadResult`. Loops are bounded by seconds and by
 * count.
 */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { summary } from './summary.ts'
import type { Summary } from './summary.ts'
import { bodyOf } from './workloads.ts'
import type { Asked } from './workloads.ts'

export interface LoadSpec {
  readonly port: number
  readonly path: string
  /**
   * JSON bodies, used in turn, or the parameters of requests with distinct prompts, made of seeds from `firstSeed`
   * on.
   */
  readonly bodies: readonly string[] | Distinct
  readonly concurrency: number
  readonly seconds: number
  readonly requestsMax: number
  readonly warmupRequests: number
}

export interface Distinct {
  readonly asked: Asked
  readonly firstSeed: number
}

export interface LoadResult {
  readonly requests: number
  readonly failures: number
  readonly firstFailure: string | null
  readonly events: number
  readonly elapsedMs: number
  /** CPU µs of this process meanwhile, user and system. */
  readonly cpuMicros: number
  readonly ttftMs: Summary
  readonly itlMs: Summary
  readonly totalMs: Summary
}

interface Tally {
  requests: number
  failures: number
  firstFailure: string | null
  events: number
  readonly ttft: number[]
  readonly itl: number[]
  readonly total: number[]
}

const TERMINATOR = Buffer.from('0\r\n\r\n')

/** One reply: its progress, and when its events came. */
class Reply {
  #head = ''
  #headDone = false
  #chunked = false
  #remaining = -1
  #tail = Buffer.alloc(0)
  #lastAt = 0
  status = 0
  events = 0
  body = ''

  /** Returns true when the reply is complete. */
  take(bytes: Buffer, startedAt: number, tally: Tally, counted: boolean): boolean {
    let rest = bytes
    if (!this.#headDone) {
      this.#head += rest.toString('latin1')
      const end = this.#head.indexOf('\r\n\r\n')
      if (end < 0) return false
      this.#headDone = true
      this.status = Number(this.#head.slice(9, 12))
      this.#chunked = /transfer-encoding: chunked/i.test(this.#head)
      this.#remaining = Number(/content-length: (\d+)/i.exec(this.#head)?.[1] ?? -1)
      rest = Buffer.from(this.#head.slice(end + 4), 'latin1')
    }
    if (this.status !== 200) this.body += rest.toString('latin1')
    if (this.#chunked) return this.#takeEvents(rest, startedAt, tally, counted)
    this.#remaining -= rest.length
    return this.#remaining <= 0
  }

  #takeEvents(rest: Buffer, startedAt: number, tally: Tally, counted: boolean): boolean {
    let found = 0
    for (let at = rest.indexOf('data: '); at >= 0; at = rest.indexOf('data: ', at + 6)) found += 1
    if (found > 0 && counted) {
      const now = performance.now()
      if (this.events === 0) tally.ttft.push(now - startedAt)
      else tally.itl.push((now - this.#lastAt) / found)
      this.#lastAt = now
    }
    this.events += found
    this.#tail = Buffer.concat([this.#tail, rest.subarray(-5)]).subarray(-5)
    return this.#tail.equals(TERMINATOR)
  }
}

async function run(spec: LoadSpec): Promise<LoadResult> {
  const tally: Tally = {
    requests: 0,
    failures: 0,
    firstFailure: null,
    events: 0,
    ttft: [],
    itl: [],
    total: [],
  }
  let issued = 0
  const cpuBefore = process.cpuUsage()
  const startedAt = performance.now()
  const deadline = startedAt + spec.seconds * 1000
  const more = () => issued < spec.requestsMax && performance.now() < deadline
  const loop = async (): Promise<void> => {
    let socket = await open(spec.port)
    while (more()) {
      const body = bodyAt(spec.bodies, issued)
      issued += 1
      const counts = issued > spec.warmupRequests
      // Some servers close a connection after each stream, whatever their headers say.
      while (!(await exchange(socket, spec, body, tally, counts))) socket = await open(spec.port)
    }
    socket.destroy()
  }
  await Promise.all(Array.from({ length: spec.concurrency }, loop))
  const { user, system } = process.cpuUsage(cpuBefore)
  return {
    requests: tally.requests,
    failures: tally.failures,
    firstFailure: tally.firstFailure,
    events: tally.events,
    elapsedMs: performance.now() - startedAt,
    cpuMicros: user + system,
    ttftMs: summary(tally.ttft),
    itlMs: summary(tally.itl),
    totalMs: summary(tally.total),
  }
}

function bodyAt(bodies: LoadSpec['bodies'], index: number): string {
  if ('asked' in bodies) return bodyOf(bodies.asked, bodies.firstSeed + index)
  return bodies[index % bodies.length] ?? '{}'
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
  })
}

/** False: the connection was closed before anything was answered. */
function exchange(
  socket: Socket,
  spec: LoadSpec,
  body: string,
  tally: Tally,
  counted: boolean,
): Promise<boolean> {
  if (socket.destroyed) return Promise.resolve(false)
  return new Promise((resolve, reject) => {
    const reply = new Reply()
    let isAnswered = false
    const startedAt = performance.now()
    const onData = (bytes: Buffer): void => {
      isAnswered = true
      if (!reply.take(bytes, startedAt, tally, counted)) return
      socket.off('data', onData)
      socket.off('close', onClose)
      if (reply.status === 200) {
        tally.requests += 1
        tally.events += reply.events
        if (counted) tally.total.push(performance.now() - startedAt)
      } else {
        tally.failures += 1
        tally.firstFailure ??= `${reply.status} ${reply.body.slice(0, 300)}`
      }
      resolve(true)
    }
    const onClose = (): void => {
      if (isAnswered) reject(new Error('the server closed the connection'))
      else resolve(false)
    }
    socket.on('data', onData)
    socket.once('close', onClose)
    socket.write(
      `POST ${spec.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
  })
}

if (process.argv[1]?.includes('load-client') === true) {
  const parts: Buffer[] = []
  for await (const part of process.stdin) parts.push(part as Buffer)
  const spec = JSON.parse(Buffer.concat(parts).toString()) as LoadSpec
  process.stdout.write(JSON.stringify(await run(spec)))
}
