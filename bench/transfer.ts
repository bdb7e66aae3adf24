/**
 * How fast KV and tokens move between two processes of this machine, each beside a bare baseline of the same run.
 *
 *   npx tsx bench/transfer.ts [--json out.json] [--rounds 5] [--only hand-over]
 *
 * KV: pulls of 1 MB … 1 GB in blocks of 1 MB by `tcp` and by `shm`, against a bare socket that moves the same bytes in
 * the same pieces and reads them straight into memory of the same kind, and against memcpy. Latency is that of one pull,
 * the best of the rounds; GB/s from the same. Blocks go into memory that is used again, as a bounded store has it;
 * `Fresh` is with memory that the process has never touched; `checked` has the crc32 that is made between machines.
 * Tokens: TOKENS frames of 64 streams from worker to sink, against the same bytes through a
 * bare socket. And on the real engine what lies between the end of the prefill and the first token of the decode worker.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

import { workerIdOf } from '../src/base/index.ts'
import { KvTcpClient, KvTcpServer, TcpRequestPlane, TcpWorkerServer } from '../src/host/index.ts'
import { finishChunk } from '../src/request/index.ts'
import type { KvOffer } from '../src/request/index.ts'
import type { ReplyPort } from '../src/wire/index.ts'
import { measureHandOver, runHandOverWorker } from './transfer/hand-over.ts'

const MB = 1024 * 1024
const SIZES = [1, 16, 128, 1024].map((count) => count * MB)
const BLOCK = MB
const PIECE = 512 * 1024
const STREAMS = 64
const STEPS = 20_000
const SHM_DIR = '/dev/shm'

const { values } = parseArgs({
  options: {
    json: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    sender: { type: 'boolean', default: false },
    worker: { type: 'string' },
    shm: { type: 'string', default: '' },
    only: { type: 'string', default: '' },
  },
})

type Kind = 'tcp' | 'checked' | 'shm' | 'shmChecked'

interface SenderAddress {
  readonly barePort: number
  readonly workerPort: number
  readonly controlPort: number
}

/** The sending process: a bare socket, two KV servers, a worker that answers as fast as it can. */
async function runSender(): Promise<void> {
  const block = new Uint8Array(BLOCK).map((_, i) => (i * 7) & 0xff)
  const source = { fingerprint: 'bench', blockTokens: 16, get: () => block }
  const servers = {
    tcp: await KvTcpServer.listen({ leaseMs: 600_000 }),
    checked: await KvTcpServer.listen({ leaseMs: 600_000, checksum: true }),
    shm: await KvTcpServer.listen({ leaseMs: 600_000, shmDir: SHM_DIR }),
    shmChecked: await KvTcpServer.listen({ leaseMs: 600_000, shmDir: SHM_DIR, checksum: true }),
  }
  // Asked for `kind bytes`, answers with one line of JSON.
  const control = createServer((socket) => {
    createInterface({ input: socket }).on('line', (line) => {
      const [kind, bytes] = line.split(' ')
      const count = Number(bytes) / BLOCK
      const blockKeys = new Uint32Array(2 * count)
      const pin = { tokenCount: 16 * count, blockKeys, kvBytes: Number(bytes), release: () => {} }
      const server = Object.hasOwn(servers, kind ?? '') ? servers[kind as Kind] : servers.tcp
      const offer = server.offer(pin, source)
      socket.write(`${JSON.stringify({ ...offer, blockKeys: count })}\n`)
    })
  }).listen(0, '127.0.0.1')
  // Asked for `bytes piece`, sends so many bytes in pieces of that size.
  const bare = createServer({ noDelay: true, highWaterMark: 4 * MB }, (socket) => {
    createInterface({ input: socket }).on('line', (line) => {
      const [bytes, piece] = line.split(' ').map(Number)
      let left = bytes ?? 0
      const pump = (): void => {
        while (left > 0) {
          const count = Math.min(left, piece ?? PIECE)
          left -= count
          if (!socket.write(block.subarray(0, count))) {
            socket.once('drain', pump)
            return
          }
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

/** When all streams are there, every engine step gives each a token. */
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

async function askOffer(address: SenderAddress, kind: string, bytes: number): Promise<KvOffer> {
  const socket = connect(address.controlPort, '127.0.0.1')
  socket.write(`${kind} ${bytes}\n`)
  for await (const line of createInterface({ input: socket })) {
    socket.destroy()
    const offer = JSON.parse(line) as Omit<KvOffer, 'blockKeys'> & { blockKeys: number }
    return { ...offer, blockKeys: new Uint32Array(2 * offer.blockKeys) }
  }
  throw new Error('the sender gave no offer')
}

/** Seconds for so many bytes in pieces of that size through a bare socket. */
class BareReader {
  readonly #socket
  readonly #buffer = Buffer.allocUnsafeSlow(MB)
  #left = 0
  #allocate: ((byteLength: number) => Uint8Array) | null = null
  #block: Uint8Array | null = null
  #onDone: () => void = () => undefined

  constructor(address: SenderAddress) {
    // As the KV client does: the kernel writes where the bytes belong.
    const buffer = (): Uint8Array => this.#block ?? this.#buffer
    const callback = (count: number): boolean => {
      this.#left -= count
      if (this.#block !== null) this.#block = this.#block.subarray(count)
      if (this.#block?.length === 0) this.#block = this.#left > 0 ? this.#nextBlock() : null
      if (this.#left === 0) this.#onDone()
      return true
    }
    this.#socket = connect({
      port: address.barePort,
      host: '127.0.0.1',
      noDelay: true,
      onread: { buffer, callback },
    })
  }

  /** Without `allocate` the bytes are read into one buffer and counted. */
  async read(
    bytes: number,
    piece: number,
    allocate: ((byteLength: number) => Uint8Array) | null = null,
  ): Promise<number> {
    this.#left = bytes
    this.#allocate = allocate
    this.#block = this.#nextBlock()
    const done = new Promise<void>((resolve) => {
      this.#onDone = resolve
    })
    const startedAt = performance.now()
    this.#socket.write(`${bytes} ${piece}\n`)
    await done
    return (performance.now() - startedAt) / 1_000
  }

  #nextBlock(): Uint8Array | null {
    return this.#allocate?.(BLOCK) ?? null
  }

  close(): void {
    this.#socket.destroy()
  }
}

/** As a bounded store gives it: the memory of evicted blocks again, 64 MB in all. */
function recycledMemory(): (byteLength: number) => Uint8Array {
  const blocks = Array.from({ length: 64 }, () => Buffer.alloc(BLOCK, 1))
  let next = 0
  return () => blocks[next++ % blocks.length] ?? new Uint8Array(BLOCK)
}

const memcpyMemory = recycledMemory()

function memcpySeconds(bytes: number): number {
  const from = new Uint8Array(BLOCK).fill(1)
  const startedAt = performance.now()
  for (let done = 0; done < bytes; done += BLOCK) memcpyMemory(BLOCK).set(from)
  return (performance.now() - startedAt) / 1_000
}

async function pullSeconds(
  address: SenderAddress,
  client: KvTcpClient,
  kind: Kind | 'tcpFresh',
  bytes: number,
): Promise<number> {
  const offer = await askOffer(address, kind, bytes)
  const all = Array.from({ length: bytes / BLOCK }, (_, i) => i)
  let taken = 0
  const stats = await client.pull(offer, all, (_index, block) => (taken += block.length) > 0)
  if (taken !== bytes || stats.via !== (kind.startsWith('shm') ? 'shm' : 'tcp'))
    throw new Error(`${taken} bytes by ${stats.via}`)
  return stats.elapsedMs / 1_000
}

interface TransferRow {
  readonly size: string
  readonly bareGBs: number
  readonly tcpGBs: number
  readonly tcpToBare: number
  readonly tcpMs: number
  /** With checksums, as between machines. */
  readonly checkedGBs: number
  readonly checkedToBare: number
  /** Both into memory that the process has not touched before. */
  readonly bareFreshGBs: number
  readonly tcpFreshGBs: number
  readonly tcpToBareFresh: number
  readonly shmGBs: number
  readonly shmToBare: number
  readonly shmMs: number
  readonly shmCheckedGBs: number
  readonly memcpyGBs: number
  readonly shmToMemcpy: number
}

const rounded = (value: number): number => Number(value.toPrecision(3))
const freshMemory = (byteLength: number): Uint8Array => Buffer.allocUnsafeSlow(byteLength)

/** What takes little time is disturbed more easily, and can be tried more often. */
function roundsFor(bytes: number): number {
  const rounds = Number(values.rounds)
  if (bytes >= 1024 * MB) return Math.min(3, rounds)
  if (bytes <= MB) return 50 * rounds
  return bytes <= 16 * MB ? 10 * rounds : rounds
}

async function measureTransfers(address: SenderAddress): Promise<TransferRow[]> {
  const bare = new BareReader(address)
  const allocate = recycledMemory()
  const clients = {
    tcp: new KvTcpClient({ allocate }),
    tcpFresh: new KvTcpClient(),
    checked: new KvTcpClient({ allocate }),
    shm: new KvTcpClient({ allocate, shmDir: SHM_DIR }),
    shmChecked: new KvTcpClient({ allocate, shmDir: SHM_DIR }),
  }
  const kinds = ['tcp', 'tcpFresh', 'checked', 'shm', 'shmChecked'] as const
  const measures = {
    bare: (bytes: number) => bare.read(bytes, PIECE, allocate),
    bareFresh: (bytes: number) => bare.read(bytes, PIECE, freshMemory),
    memcpy: async (bytes: number) => await Promise.resolve(memcpySeconds(bytes)),
  }
  const rows: TransferRow[] = []
  for (const bytes of SIZES) {
    const best = new Map<string, number>()
    const note = (name: string, seconds: number): void => {
      best.set(name, Math.min(best.get(name) ?? Infinity, seconds))
    }
    // Kinds take turns, so that what else the machine does falls on all alike.
    const rounds = roundsFor(bytes)
    for (let round = 0; round < rounds; round++) {
      for (const [name, measure] of Object.entries(measures)) note(name, await measure(bytes))
      for (const kind of kinds) note(kind, await pullSeconds(address, clients[kind], kind, bytes))
    }
    const seconds = (name: string): number => best.get(name) ?? Infinity
    const speed = (name: string): number => rounded(bytes / 1e9 / seconds(name))
    const ratio = (base: string, name: string): number => rounded(seconds(base) / seconds(name))
    rows.push({
      size: `${bytes / MB} MB`,
      bareGBs: speed('bare'),
      tcpGBs: speed('tcp'),
      tcpToBare: ratio('bare', 'tcp'),
      tcpMs: rounded(seconds('tcp') * 1_000),
      checkedGBs: speed('checked'),
      checkedToBare: ratio('bare', 'checked'),
      bareFreshGBs: speed('bareFresh'),
      tcpFreshGBs: speed('tcpFresh'),
      tcpToBareFresh: ratio('bareFresh', 'tcpFresh'),
      shmGBs: speed('shm'),
      shmToBare: ratio('bare', 'shm'),
      shmMs: rounded(seconds('shm') * 1_000),
      shmCheckedGBs: speed('shmChecked'),
      memcpyGBs: speed('memcpy'),
      shmToMemcpy: ratio('memcpy', 'shm'),
    })
  }
  bare.close()
  for (const client of Object.values(clients)) await client.close()
  return rows
}

interface TokenRow {
  readonly frames: number
  readonly tokensPerFrame: number
  readonly framesPerSecond: number
  readonly microsPerFrame: number
  readonly bareMicrosPerFrame: number
  readonly ratio: number
}

async function measureTokens(address: SenderAddress): Promise<TokenRow> {
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
  let [best, bareBest] = [Infinity, Infinity]
  for (let round = 0; round < Number(values.rounds); round++) {
    best = Math.min(best, await run())
    bareBest = Math.min(bareBest, await bare.read(STEPS * frameBytes, frameBytes))
  }
  bare.close()
  await plane.close()
  return {
    frames: STEPS,
    tokensPerFrame: STREAMS,
    framesPerSecond: Math.round(STEPS / best),
    microsPerFrame: rounded((best / STEPS) * 1e6),
    bareMicrosPerFrame: rounded((bareBest / STEPS) * 1e6),
    ratio: rounded(best / bareBest),
  }
}

async function main(): Promise<void> {
  const file = fileURLToPath(import.meta.url)
  const sender = spawn(process.execPath, ['--import', 'tsx', file, '--sender'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    let address: SenderAddress | null = null
    for await (const line of createInterface({ input: sender.stdout })) {
      address = JSON.parse(line) as SenderAddress
      break
    }
    if (address === null) throw new Error('the sender did not start')
    const transfers = await measureTransfers(address)
    const tokens = await measureTokens(address)
    const handOvers = await measureHandOvers()
    console.table(transfers)
    console.table([tokens])
    console.table(handOvers)
    const all = { transfers, tokens, handOvers }
    if (values.json) writeFileSync(values.json, JSON.stringify(all, null, 2))
  } finally {
    sender.kill()
  }
}

async function measureHandOvers() {
  const rounds = Number(values.rounds)
  return [...(await measureHandOver(rounds, '')), ...(await measureHandOver(rounds, SHM_DIR))]
}

if (values.worker === 'prefill' || values.worker === 'decode') {
  await runHandOverWorker(values.worker, values.shm)
} else if (values.only === 'hand-over') console.table(await measureHandOvers())
else await (values.sender ? runSender() : main())
