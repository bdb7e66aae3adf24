/**
 * The connections of one rank of the dialect `boostr`: connects to the configured ranks, accepts the others, and
 * implements the link of its node.
 *
 *   node ── send(rank, frame) ──▶ mesh ── TCP ──▶ mesh of that rank ── receive(from, frame) ──▶ its node
 *
 * The dialect has no handshake of its own, so a connection starts with HELLO, which names the rank and proves the
 * secret; after that only tags 10 and 30–37 (and PING, PONG, GOODBYE) are accepted. A lost connection is reported as
 * `peerGone` and opened again; messages sent meanwhile are lost, which the deadlines of the roles handle.
 */
import type { AddressInfo, Server, Socket } from 'node:net'

import { addressText, BatonError } from '../../base/index.ts'
import { SKIPPABLE, TAG, batonLimits, boostrLimits, protocolError } from '../../wire/index.ts'
import type { BoostrFrame } from '../protocol/boostr-message.ts'
import type { BoostrLink, BoostrNode } from '../protocol/boostr-link.ts'
import { KvGatherer } from './kv-gatherer.ts'
import { LinkReports } from './link-reports.ts'
import { listenOn } from '../../network/index.ts'
import { WireSocket } from '../../network/index.ts'
import type { WireSocketOptions, WireTiming } from '../../network/index.ts'
import { createWireServer, dialWire, wireFailure } from '../../network/index.ts'
import type { WireTls } from '../../network/index.ts'

export type BoostrMeshNode = BoostrNode

export interface BoostrMeshOptions {
  readonly rank: number
  /** The ranks whose connections are accepted or that are connected to. */
  readonly ranks: readonly number[]
  readonly createNode: (link: BoostrLink) => BoostrMeshNode
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 0: any free port. */
  readonly port?: number
  readonly secret?: string
  readonly tls?: WireTls
  readonly software?: string
  readonly timing?: WireTiming
  readonly redialMs?: number
  /** A line for the log: a connection that was refused, cannot be made or was lost, and why. */
  readonly report?: (line: string) => void
}

interface Dialled {
  readonly rank: number
  readonly host: string
  readonly port: number
  socket: Socket | null
  /** Until the TLS handshake has ended, too; then the socket belongs to its `WireSocket`. */
  isConnecting: boolean
  timer: NodeJS.Timeout | null
}

const REDIAL_MS = 200
/** Frames of at least this size go to the socket without a copy. */
const RAW_BYTES = 16 * 1024
const CONTROL_TAGS = [TAG.HELLO, TAG.AUTH, TAG.PING, TAG.PONG, TAG.GOODBYE] as const

export class BoostrMesh implements BoostrLink {
  readonly host: string
  readonly port: number
  readonly #options: BoostrMeshOptions
  readonly #server: Server
  readonly #node: BoostrMeshNode
  readonly #wires = new Set<WireSocket>()
  /** The connection of each rank, after its handshake. */
  readonly #byRank = new Map<number, WireSocket>()
  readonly #dialled: Dialled[] = []
  /** Ranks of which the node will be told that something for them was lost. */
  readonly #lost = new Set<number>()
  readonly #reports: LinkReports
  /** Of ranks that this side connects to: why the last attempt failed, or the connection was lost. */
  readonly #failures = new Map<number, string>()
  /** Ranks that were connected at some time. */
  readonly #known = new Set<number>()
  #waiting: { readonly rank: number; readonly resolve: () => void }[] = []
  #closing: Promise<void> | null = null

  private constructor(server: Server, options: BoostrMeshOptions) {
    const address = server.address() as AddressInfo
    this.host = address.address
    this.port = address.port
    this.#server = server
    this.#options = options
    this.#reports = new LinkReports(options.report ?? (() => undefined), () => performance.now())
    this.#node = options.createNode(this)
  }

  /** Rejects with `host.address_in_use` when the port is taken. */
  static async listen(options: BoostrMeshOptions): Promise<BoostrMesh> {
    let mesh: BoostrMesh | undefined
    const server = createWireServer(
      options.tls,
      { noDelay: true },
      (socket, admit) => {
        if (mesh !== undefined) mesh.#attach(socket, 'acceptor', null, admit)
      },
      (fault) => {
        if (mesh !== undefined) mesh.#tellRefused(fault)
      },
    )
    await listenOn(server, options.host ?? '127.0.0.1', options.port ?? 0)
    mesh = new BoostrMesh(server, options)
    return mesh
  }

  /** Ranks that are connected now. */
  get reachable(): readonly number[] {
    return [...this.#byRank.keys()]
  }

  /** Null: it is connected, or nothing is known yet. */
  whyUnreachable(rank: number): string | null {
    return this.#failures.get(rank) ?? null
  }

  /** Keeps a connection to that rank until the mesh closes. Only one of two ranks connects, not both. */
  dial(rank: number, host: string, port: number): void {
    const dialled: Dialled = { rank, host, port, socket: null, isConnecting: false, timer: null }
    this.#dialled.push(dialled)
    this.#connect(dialled)
  }

  /** Resolves when that rank is connected. */
  async reached(rank: number): Promise<void> {
    if (this.#byRank.has(rank)) return
    await new Promise<void>((resolve) => this.#waiting.push({ rank, resolve }))
  }

  send(rank: number, frame: BoostrFrame): void {
    const wire = this.#byRank.get(rank)
    if (wire === undefined) {
      this.#lose(rank)
      return
    }
    const { payload } = frame
    // Peers of version 0.1 do not know it.
    const tag = frame.tag === TAG.REQUEST_CANCEL ? (frame.tag | SKIPPABLE) >>> 0 : frame.tag
    if (payload.length < RAW_BYTES) {
      wire.writer.begin(tag).bytes(payload).end()
      wire.flushSoon()
      return
    }
    wire.writer.begin(tag).end(payload.length)
    wire.flush()
    wire.writeRaw(payload)
  }

  reset(rank: number): void {
    const wire = this.#byRank.get(rank)
    this.#byRank.delete(rank)
    this.#lose(rank)
    wire?.close(new BatonError('transport.disconnected', 'this rank connects anew'))
  }

  /** Not from within the node's own call. */
  #lose(rank: number): void {
    this.#lost.add(rank)
    setImmediate(() => this.#tellLost(rank))
  }

  /** Told before the rank is back at the latest: afterwards it would end what the new connection has begun. */
  #tellLost(rank: number): void {
    if (this.#lost.delete(rank) && this.#closing === null) this.#node.peerGone(rank)
  }

  /** Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  #connect(dialled: Dialled): void {
    const { host, port } = dialled
    const socket = dialWire(this.#options.tls, { host, port }, () => {
      socket.off('error', onError)
      dialled.isConnecting = false
      this.#attach(socket, 'initiator', dialled)
    })
    dialled.socket = socket
    dialled.isConnecting = true
    const onError = (error: Error): void => {
      this.#tellFailed(dialled, wireFailure(error), 'cannot be reached')
      this.#redial(dialled)
    }
    socket.once('error', onError)
  }

  #tellFailed({ rank, host, port }: Dialled, reason: BatonError, what: string): void {
    if (this.#closing !== null) return
    const line = `rank ${rank} at ${addressText(host, port)} ${what}: ${reason.message}`
    this.#failures.set(rank, line)
    this.#reports.tell(line)
  }

  #tellRefused(reason: BatonError): void {
    if (this.#closing === null) this.#reports.tell(`a connection was refused: ${reason.message}`)
  }

  #redial(dialled: Dialled): void {
    dialled.socket?.destroy()
    if (this.#closing !== null) return
    dialled.timer = setTimeout(() => this.#connect(dialled), this.#options.redialMs ?? REDIAL_MS)
  }

  #attach(
    socket: Socket,
    side: WireSocketOptions['side'],
    dialled: Dialled | null,
    admit?: () => BatonError | null,
  ): void {
    const { rank, secret, software = '', timing } = this.#options
    const self = {
      role: 'boostr',
      software,
      capabilities: [],
      limits: {},
      workerId: `${rank}`,
    } as const
    let from = -1
    const kv = new KvGatherer({
      wants: (length) => this.#node.beginKv?.(from, length) === true,
      onWhole: (payload) => this.#node.receive(from, { tag: TAG.KV_CACHE, payload }),
    })
    const wire = new WireSocket(
      socket,
      {
        side,
        self,
        secret,
        timing,
        admit,
        limits: limitsOfMesh(this.#node.beginKv !== undefined),
        streamedTag: TAG.KV_CACHE,
      },
      {
        onReady: ({ role, workerId }) => {
          if (role !== 'boostr') throw protocolError('message.unexpected', `a ${role} calls`)
          from = this.#rankOf(workerId, dialled)
          this.#onReached(from, wire)
        },
        onFrame: (tag, bytes, start, end) => {
          // A node keeps payloads, and these bytes belong to the socket. (`slice` of a Buffer would not copy.)
          this.#node.receive(from, { tag, payload: new Uint8Array(bytes.subarray(start, end)) })
        },
        onPart: (_tag, length, offset, bytes, start, end) => {
          kv.onPart(length, offset, bytes.subarray(start, end))
        },
        onClosed: (reason) => {
          this.#wires.delete(wire)
          if (dialled !== null) {
            const what = from < 0 ? 'cannot be reached' : 'was lost'
            this.#tellFailed(dialled, reason, what)
          } else if (from < 0 && reason.code !== 'transport.disconnected') this.#tellRefused(reason)
          if (this.#byRank.get(from) === wire) {
            this.#byRank.delete(from)
            this.#node.peerGone(from)
          }
          if (dialled !== null) this.#redial(dialled)
        },
      },
    )
    this.#wires.add(wire)
  }

  #rankOf(name: string | undefined, dialled: Dialled | null): number {
    const rank = /^\d{1,10}$/.test(name ?? '') ? Number(name) : -1
    const isKnown = dialled === null ? this.#options.ranks.includes(rank) : rank === dialled.rank
    if (isKnown) return rank
    throw protocolError('message.unexpected', `rank ${rank} is not expected here`)
  }

  #onReached(rank: number, wire: WireSocket): void {
    this.#tellLost(rank)
    const before = this.#byRank.get(rank)
    this.#byRank.set(rank, wire)
    if (before !== undefined) {
      // A rank that reconnects had lost its connection without this side noticing, or is there twice.
      this.#node.peerGone(rank)
      const text = `rank ${rank} has connected again: do two processes have this rank?`
      this.#reports.tell(text)
      before.close(new BatonError('transport.disconnected', text))
    }
    this.#node.peerBack?.(rank)
    if (this.#failures.delete(rank) && this.#known.has(rank)) {
      this.#reports.tell(`rank ${rank} is connected again`)
    }
    this.#known.add(rank)
    for (const waiting of this.#waiting) if (waiting.rank === rank) waiting.resolve()
    this.#waiting = this.#waiting.filter((waiting) => waiting.rank !== rank)
  }

  async #close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    const reason = new BatonError('backend.engine_shutdown', 'this rank has stopped')
    this.#node.close()
    for (const wire of this.#wires) wire.close(reason)
    for (const { socket, isConnecting, timer } of this.#dialled) {
      if (timer !== null) clearTimeout(timer)
      if (isConnecting) socket?.destroy()
    }
    await closed
  }
}

/** A node that takes no KV does not know its tag. */
function limitsOfMesh(takesKv: boolean): ReadonlyMap<number, number> {
  const baton = batonLimits()
  const limits = boostrLimits(CONTROL_TAGS.map((tag) => [tag, baton.get(tag) ?? 0] as const))
  return takesKv ? limits : new Map([...limits].filter(([tag]) => tag !== TAG.KV_CACHE))
}
