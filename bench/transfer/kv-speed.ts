/**
 * Pulls of KV, each compared with a bare socket that transferred the same number of bytes right before it.
 *
 * A ratio is computed within each such pair, and the median over all pairs is reported, so that other load on the
 * machine affects both sides and single lucky rounds have no influence. The quartiles show the uncertainty.
 */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'

import { KvBlockStore } from '../../src/engine/index.ts'
import { KvTcpClient } from '../../src/network/index.ts'
import type { KvOffer } from '../../src/request/index.ts'
import type { KvPullTarget } from '../../src/wire/index.ts'
import { rounded } from '../load/summary.ts'
import { BareReader } from './bare-reader.ts'
import { BLOCK, MB, PIECE } from './sender.ts'
import type { SenderAddress, ServerKind } from './sender.ts'

const SIZES = [1, 4, 16, 128, 1024].map((count) => count * MB)

export interface KvSpeedRow {
  readonly size: string
  readonly kind: string
  readonly GBs: number
  readonly ms: number
  /** The baseline, in the same rounds. */
  readonly base: string
  readonly baseGBs: number
  readonly ratio: number
  readonly quartiles: string
  /** CPU time of both processes divided by that of the baseline; too small to measure below 16 MB. */
  readonly cpuRatio: number | null
}

type Allocate = (byteLength: number) => Uint8Array

/** As from a bounded store: the same 64 MB again and again. */
function usedMemory(): Allocate {
  const blocks = Array.from({ length: 64 }, () => Buffer.alloc(BLOCK, 1))
  let next = 0
  return () => blocks[next++ % blocks.length] ?? new Uint8Array(BLOCK)
}

const freshMemory: Allocate = (byteLength) => Buffer.allocUnsafeSlow(byteLength)

/** The engines' store with space for 64 MB: once it is full each block takes the memory of an evicted one. */
function createStore(): KvPullTarget {
  const blockTokens = 16
  const store = new KvBlockStore({
    fingerprint: 'bench',
    blockTokens,
    bytesPerToken: BLOCK / blockTokens,
    capacityBytes: 64 * MB,
    createMemory: freshMemory,
  })
  let key = 0
  return {
    put: (_index, bytes) => store.put(key++, 0, blockTokens, bytes),
    allocate: (byteLength) => store.allocate(byteLength),
  }
}

/**
 * Asks the sender for offers over one connection in advance, because making one would add to the time of the pull.
 */
class OfferAsker {
  readonly #socket: Socket
  readonly #lines: AsyncIterator<string>

  constructor({ controlPort }: SenderAddress) {
    this.#socket = connect({ port: controlPort, host: '127.0.0.1', noDelay: true })
    this.#lines = createInterface({ input: this.#socket })[Symbol.asyncIterator]()
  }

  /** CPU µs of sender and receiver so far. */
  async cpuMicros(): Promise<number> {
    const { user, system } = process.cpuUsage()
    return user + system + Number(await this.#line('cpu'))
  }

  async #line(question: string): Promise<string> {
    this.#socket.write(`${question}\n`)
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('the sender does not answer')
    return value
  }

  async ask(kind: ServerKind, bytes: number): Promise<KvOffer> {
    const offer = JSON.parse(await this.#line(`${kind} ${bytes}`)) as Omit<KvOffer, 'blockKeys'> & {
      blockKeys: number[]
    }
    return { ...offer, blockKeys: Uint32Array.from(offer.blockKeys) }
  }

  close(): void {
    this.#socket.destroy()
  }
}

async function pullSeconds(
  offers: OfferAsker,
  client: KvTcpClient,
  kind: ServerKind,
  bytes: number,
  target: KvPullTarget,
): Promise<number> {
  const offer = await offers.ask(kind, bytes)
  const all = Array.from({ length: bytes / BLOCK }, (_, i) => i)
  const startedAt = performance.now()
  const stats = await client.pull(offer, all, target)
  const seconds = (performance.now() - startedAt) / 1_000
  if (stats.bytes !== bytes) throw new Error(`${stats.bytes} bytes by ${kind}`)
  return seconds
}

/** Small transfers are disturbed more easily, and can be repeated more often. */
function roundsFor(bytes: number, rounds: number): number {
  if (bytes >= 1024 * MB) return rounds
  return Math.min(100, (128 * MB) / bytes) * 2 * rounds
}

interface Contest {
  readonly kind: string
  readonly base: string
  readonly run: (bytes: number) => Promise<number>
  readonly runBase: (bytes: number) => Promise<number>
}

/** The results of the rounds: seconds, and CPU µs. */
class Tally {
  readonly base: number[] = []
  readonly own: number[] = []
  readonly ratios: number[] = []
  baseCpu = 0
  ownCpu = 0

  row({ kind, base }: Contest, bytes: number): KvSpeedRow {
    return {
      size: `${bytes / MB} MB`,
      kind,
      GBs: rounded(bytes / 1e9 / quantile(this.own, 0.5)),
      ms: rounded(quantile(this.own, 0.5) * 1_000),
      base,
      baseGBs: rounded(bytes / 1e9 / quantile(this.base, 0.5)),
      ratio: rounded(quantile(this.ratios, 0.5)),
      quartiles: `${rounded(quantile(this.ratios, 0.25))} … ${rounded(quantile(this.ratios, 0.75))}`,
      cpuRatio: bytes < 16 * MB ? null : rounded(this.baseCpu / this.ownCpu),
    }
  }
}

/** Kinds take turns, and each has its baseline right before it. */
async function compare(
  contests: readonly Contest[],
  offers: OfferAsker,
  bytes: number,
  rounds: number,
): Promise<KvSpeedRow[]> {
  const tallies = contests.map((contest) => ({ contest, tally: new Tally() }))
  for (let round = 0; round < roundsFor(bytes, rounds); round++) {
    for (const { contest, tally } of tallies) {
      const cpu = await offers.cpuMicros()
      const base = await contest.runBase(bytes)
      const cpuBetween = await offers.cpuMicros()
      const own = await contest.run(bytes)
      tally.base.push(base)
      tally.own.push(own)
      tally.ratios.push(base / own)
      tally.baseCpu += cpuBetween - cpu
      tally.ownCpu += (await offers.cpuMicros()) - cpuBetween
    }
  }
  return tallies.map(({ contest, tally }) => tally.row(contest, bytes))
}

export async function measureKv(
  address: SenderAddress,
  { rounds, kind: only }: { rounds: number; kind: string },
): Promise<KvSpeedRow[]> {
  const bare = new BareReader(address)
  const offers = new OfferAsker(address)
  const [used, copyTo] = [usedMemory(), usedMemory()]
  const copyFrom = Array.from({ length: 64 }, () => new Uint8Array(BLOCK).fill(1))
  const clients: KvTcpClient[] = []
  const pull = (kind: ServerKind, target: KvPullTarget) => {
    const client = new KvTcpClient()
    clients.push(client)
    return (bytes: number) => pullSeconds(offers, client, kind, bytes, target)
  }
  const readBare = (bytes: number) => bare.read(bytes, PIECE, used)
  const readFresh = (bytes: number) => bare.read(bytes, PIECE, freshMemory)
  const copy = async (bytes: number): Promise<number> => {
    const startedAt = performance.now()
    for (let i = 0; i < bytes / BLOCK; i++) copyTo(BLOCK).set(copyFrom[i % copyFrom.length] ?? [])
    return await Promise.resolve((performance.now() - startedAt) / 1_000)
  }
  const contests: readonly Contest[] = [
    { kind: 'tcp', base: 'bare', run: pull('tcp', createStore()), runBase: readBare },
    { kind: 'tcp checked', base: 'bare', run: pull('checked', createStore()), runBase: readBare },
    {
      kind: 'tcp checked, new',
      base: 'bare',
      run: pull('checkedNew', createStore()),
      runBase: readBare,
    },
    {
      kind: 'tcp fresh',
      base: 'bare fresh',
      run: pull('tcp', { put: () => true }),
      runBase: readFresh,
    },
    { kind: 'tcp', base: 'memcpy', run: pull('tcp', createStore()), runBase: copy },
  ]
  const wanted = contests.filter(({ kind }) => only === '' || only === kind)
  const rows: KvSpeedRow[] = []
  for (const bytes of SIZES) rows.push(...(await compare(wanted, offers, bytes, rounds)))
  bare.close()
  offers.close()
  for (const client of clients) await client.close()
  return rows
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}
