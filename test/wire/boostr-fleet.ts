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

/** Virtual time, links that keep order and have random delays, nodes that can die. */
export class Fleet {
  readonly nodes = new Map<number, BoostrNode>()
  readonly sent: { from: number; to: number; tag: number }[] = []
  readonly clock: Clock
  readonly random: Random
  readonly dead = new Set<number>()
  onSend: (from: number, to: number, frame: BoostrFrame) => boolean = () => true
  #now = 0
  #order = 0
  #events: { at: number; order: number; run: () => void }[] = []
  readonly #linkFreeAt = new Map<string, number>()

  constructor(seed: number) {
    this.random = seededRandom(seed)
    this.clock = {
      nowMs: () => this.#now,
      epochMs: () => this.#now,
      after: (delayMs, fire) => this.#at(this.#now + delayMs, fire),
    }
  }

  link(from: number) {
    return {
      send: (to: number, frame: BoostrFrame): void => {
        this.sent.push({ from, to, tag: frame.tag })
        if (!this.onSend(from, to, frame)) return
        const name = `${from}-${to}`
        const at = Math.max(this.#linkFreeAt.get(name) ?? 0, this.#now + this.random.next() * 10)
        this.#linkFreeAt.set(name, at)
        this.#at(at, () => {
          if (!this.dead.has(from) && !this.dead.has(to)) this.nodes.get(to)?.receive(from, frame)
        })
      },
    }
  }

  kill(rank: number): void {
    this.dead.add(rank)
    for (const [other, node] of this.nodes) {
      if (other !== rank) this.#at(this.#now + 1, () => node.peerGone(rank))
    }
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

export interface Topology {
  readonly routers: number
  readonly prefill: number
  readonly decode: number
  readonly peers?: BoostrPeers
  readonly maxKvTransferBytes?: number
  readonly decodeMaxKvTransferBytes?: number
}

export function build(fleet: Fleet, topology: Topology) {
  const { routers, prefill, decode, peers = 'baton', maxKvTransferBytes = 1e6 } = topology
  const { clock } = fleet
  const prefillWorkers = Array.from({ length: prefill }, (_, i) => 100 + i)
  const decodeWorkers = Array.from({ length: decode }, (_, i) => 200 + i)
  const routerNodes = Array.from({ length: routers }, (_, routerRank) => {
    const config = createDisaggConfig({
      prefillWorkers,
      decodeWorkers,
      routerRank,
      maxKvTransferBytes,
    })
    const router = new BoostrRouter({
      config,
      link: fleet.link(routerRank),
      clock,
      peers,
      prefillMs: 2_000,
      tokenMs: 1_000,
      queueMax: 1_000,
      affinityMax: 10,
    })
    fleet.nodes.set(routerRank, router)
    return router
  })
  const prefillNodes = prefillWorkers.map((rank) => {
    const worker = new BoostrPrefillWorker({
      link: fleet.link(rank),
      clock,
      prefill: (tokenIds, done) => {
        clock.after(fleet.random.next() * 20, () => done(kvOf(tokenIds)))
      },
      decodeWorkers,
      maxKvTransferBytes,
      peers,
      ackMs: 500,
      parkedMax: 100,
    })
    fleet.nodes.set(rank, worker)
    return worker
  })
  const decodeNodes = decodeWorkers.map((rank) => {
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
      peers,
      kvWaitMs: 3_000,
      onWork: schedule,
    })
    fleet.nodes.set(rank, worker)
    return worker
  })
  return { routers: routerNodes, prefill: prefillNodes, decode: decodeNodes }
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

export const loads = (nodes: ReturnType<typeof build>): number[] =>
  [...nodes.routers, ...nodes.prefill, ...nodes.decode].map(({ load }) => load)
export const isIdle = (nodes: ReturnType<typeof build>): boolean =>
  loads(nodes).every((load) => !load)
