/** A fleet that speaks boostr in one process: virtual time, links with random delays, nodes that can die. */
import type { BatonError, Clock, Random } from '../../src/base/index.ts'
import { seededRandom } from '../../src/base/index.ts'
import { BoostrDecodeWorker } from '../../src/boostr/protocol/boostr-decode-worker.ts'
import type { BoostrNode, BoostrPeers } from '../../src/boostr/protocol/boostr-link.ts'
import type { BoostrFrame } from '../../src/boostr/protocol/boostr-message.ts'
import { BoostrPrefillWorker } from '../../src/boostr/protocol/boostr-prefill-worker.ts'
import { BoostrRouter } from '../../src/boostr/protocol/boostr-router.ts'
import { createDisaggConfig } from '../../src/boostr/protocol/disagg-config.ts'
import { decodeStep, kvOf } from './boostr-toy.ts'

/** The connection of two ranks: its number, and whether it is open now. */
interface Line {
  number: number
  isUp: boolean
}

const DEADLINE_MS_LEAST = 500

/** Virtual time, links that keep order and have random delays, nodes that can die, start again, and lose connections. */
export class Fleet {
  readonly nodes = new Map<number, FleetNode>()
  readonly sent: { from: number; to: number; tag: number }[] = []
  readonly clock: Clock
  readonly random: Random
  readonly dead = new Set<number>()
  onSend: (from: number, to: number, frame: BoostrFrame) => boolean = () => true
  /** How much longer a frame needs than usual. */
  extraDelayMs: (from: number, to: number, frame: BoostrFrame) => number = () => 0
  /** Deadlines that have passed. */
  deadlineCount = 0
  #now = 0
  #order = 0
  #events: { at: number; order: number; run: () => void }[] = []
  readonly #linkFreeAt = new Map<string, number>()
  readonly #lines = new Map<string, Line>()
  /** How often a rank has started again. */
  readonly #starts = new Map<number, number>()

  constructor(seed: number) {
    this.random = seededRandom(seed)
    this.clock = {
      nowMs: () => this.#now,
      epochMs: () => this.#now,
      after: (delayMs, fire) =>
        this.#at(this.#now + delayMs, () => {
          if (delayMs >= DEADLINE_MS_LEAST) this.deadlineCount += 1
          fire()
        }),
    }
  }

  /** Of the process that is started now: when the rank starts again, the former process reaches nobody. */
  link(from: number) {
    const start = this.#starts.get(from)
    return {
      send: (to: number, frame: BoostrFrame): void => {
        if (this.#starts.get(from) !== start) return
        this.sent.push({ from, to, tag: frame.tag })
        if (!this.onSend(from, to, frame)) return
        const line = this.#line(from, to)
        const { number } = line
        if (!line.isUp) {
          this.#at(this.#now, () => {
            if (!line.isUp) this.nodes.get(from)?.peerGone(to)
          })
          return
        }
        const name = `${from}-${to}`
        const delayMs = this.random.next() * 10 + this.extraDelayMs(from, to, frame)
        const at = Math.max(this.#linkFreeAt.get(name) ?? 0, this.#now + delayMs)
        this.#linkFreeAt.set(name, at)
        this.#at(at, () => {
          const isLost = this.dead.has(from) || this.dead.has(to) || line.number !== number
          if (!isLost) this.nodes.get(to)?.receive(from, frame)
        })
      },
      reset: (to: number): void => {
        if (this.#starts.get(from) === start) this.cut(from, to)
      },
    }
  }

  kill(rank: number): void {
    this.dead.add(rank)
    for (const [other, node] of this.nodes) {
      if (other !== rank) this.#at(this.#now + 1, () => node.peerGone(rank))
    }
  }

  /** A new process takes the rank; `create` gets its link from here. Every peer notices at a time of its own. */
  restart(rank: number, peers: readonly number[], create: () => FleetNode): void {
    this.#starts.set(rank, (this.#starts.get(rank) ?? 0) + 1)
    const node = create()
    this.nodes.set(rank, node)
    for (const peer of peers) {
      node.peerGone(peer)
      this.cut(rank, peer)
    }
  }

  /** The connection of two ranks is lost, with all that is on its way, and opened again. */
  cut(one: number, other: number): void {
    const line = this.#line(one, other)
    line.number += 1
    line.isUp = false
    this.#linkFreeAt.delete(`${one}-${other}`)
    this.#linkFreeAt.delete(`${other}-${one}`)
    const { number } = line
    const ends = [
      [one, other],
      [other, one],
    ] as const
    const noticed = ends.map(([at, of]) => {
      const when = this.#now + this.random.next() * 10
      this.#at(when, () => this.nodes.get(at)?.peerGone(of))
      return when
    })
    this.#at(Math.max(...noticed) + this.random.next() * 10, () => {
      if (line.number !== number || ends.some(([at]) => this.dead.has(at))) return
      line.isUp = true
      for (const [at, of] of ends) this.nodes.get(at)?.peerBack?.(of)
    })
  }

  run(untilMs = Infinity): void {
    for (let i = 0; i < 2_000_000; i++) {
      this.#events.sort((left, right) => left.at - right.at || left.order - right.order)
      const next = this.#events[0]
      if (!next || next.at > untilMs) return
      this.#events.shift()
      this.#now = next.at
      next.run()
    }
    throw new Error('the fleet does not come to rest')
  }

  #line(one: number, other: number): Line {
    const name = one < other ? `${one}-${other}` : `${other}-${one}`
    const line = this.#lines.get(name) ?? { number: 0, isUp: true }
    this.#lines.set(name, line)
    return line
  }

  #at(at: number, run: () => void) {
    const event = { at, order: (this.#order += 1), run }
    this.#events.push(event)
    return {
      cancel: () => {
        const position = this.#events.indexOf(event)
        if (position !== -1) this.#events.splice(position, 1)
      },
    }
  }
}

type FleetNode = BoostrNode

export interface Topology {
  readonly routers: number
  readonly prefill: number
  readonly decode: number
  readonly peers?: BoostrPeers
  readonly maxKvTransferBytes?: number
  readonly decodeMaxKvTransferBytes?: number
  readonly prefillKvBytesMax?: number
  readonly decodeKvBytesMax?: number
  readonly inFlightMax?: number
  readonly queueMax?: number
  readonly queueMs?: number
}

export function build(fleet: Fleet, topology: Topology) {
  const { routers, prefill, decode, peers = 'baton', maxKvTransferBytes = 1e6 } = topology
  const { clock } = fleet
  const prefillWorkers = Array.from({ length: prefill }, (_, i) => 100 + i)
  const decodeWorkers = Array.from({ length: decode }, (_, i) => 200 + i)
  const createRouter = (routerRank: number, firstRequestId?: bigint): BoostrRouter => {
    const config = createDisaggConfig({
      prefillWorkers,
      decodeWorkers,
      routerRank,
      maxKvTransferBytes,
    })
    return new BoostrRouter({
      config,
      link: fleet.link(routerRank),
      clock,
      peers,
      prefillMs: 2_000,
      tokenMs: 1_000,
      queueMax: topology.queueMax ?? 1_000,
      ...(topology.queueMs === undefined ? {} : { queueMs: topology.queueMs }),
      ...(topology.inFlightMax === undefined ? {} : { inFlightMax: topology.inFlightMax }),
      affinityMax: 10,
      ...(firstRequestId === undefined ? {} : { firstRequestId }),
    })
  }
  const createPrefill = (rank: number): BoostrPrefillWorker =>
    new BoostrPrefillWorker({
      link: fleet.link(rank),
      clock,
      prefill: (tokenIds, done) => {
        clock.after(fleet.random.next() * 20, () => done(kvOf(tokenIds)))
      },
      decodeWorkers,
      maxKvTransferBytes,
      kvBytesMax: topology.prefillKvBytesMax ?? 1e9,
      peers,
      ackMs: 500,
      parkedMax: 100,
    })
  const createDecode = (rank: number): BoostrDecodeWorker => {
    let isDue = false
    const schedule = (): void => {
      if (isDue || fleet.dead.has(rank)) return
      isDue = true
      clock.after(5, () => {
        isDue = false
        if (fleet.dead.has(rank)) return
        worker.step()
        if (worker.hasWork) schedule()
      })
    }
    const worker = new BoostrDecodeWorker({
      link: fleet.link(rank),
      clock,
      decodeStep,
      maxKvTransferBytes: topology.decodeMaxKvTransferBytes ?? maxKvTransferBytes,
      kvBytesMax: topology.decodeKvBytesMax ?? 1e9,
      peers,
      kvWaitMs: 3_000,
      onWork: schedule,
    })
    return worker
  }
  const start = <N extends FleetNode>(ranks: readonly number[], create: (rank: number) => N): N[] =>
    ranks.map((rank) => {
      const node = create(rank)
      fleet.nodes.set(rank, node)
      return node
    })
  return {
    routers: start(
      Array.from({ length: routers }, (_, rank) => rank),
      (rank) => createRouter(rank),
    ),
    prefill: start(prefillWorkers, createPrefill),
    decode: start(decodeWorkers, createDecode),
    createRouter,
    createPrefill,
    createDecode,
  }
}

export class Reply {
  readonly tokens: bigint[] = []
  ends: string[] = []
  error: BatonError | null = null
  onToken(tokenId: bigint): void {
    this.tokens.push(tokenId)
  }
  onDone(): void {
    this.ends.push('done')
  }
  onError(error: BatonError): void {
    this.error = error
    this.ends.push(error.code)
  }
}

export function ask(
  router: BoostrRouter,
  prompt: readonly bigint[],
  maxNewTokens = 12,
  key?: string,
) {
  const reply = new Reply()
  const tokenIds = BigInt64Array.from(prompt)
  const session = key === undefined ? {} : { sessionKey: key }
  const handle = router.routeRequest({ tokenIds, maxNewTokens, ...session }, reply)
  return { reply, handle }
}

type Nodes = Pick<ReturnType<typeof build>, 'routers' | 'prefill' | 'decode'>

export const loads = (nodes: Nodes): number[] =>
  [...nodes.routers, ...nodes.prefill, ...nodes.decode].map(({ load }) => load)
export const isIdle = (nodes: Nodes): boolean => loads(nodes).every((load) => !load)
