/**
 * What a node of the dialect `boostr` needs of the world: a way to send to a rank. Frames to one rank keep their order
 * and arrive once, or the rank is reported gone (`peerGone` of the node).
 */
import type { BoostrFrame } from './boostr-message.ts'

export interface BoostrLink {
  send(rank: number, frame: BoostrFrame): void
}

/** What every node takes from its driver. */
export interface BoostrNode {
  /** Throws `transport.protocol` for what no peer may send; the driver then drops that peer. */
  receive(fromRank: number, frame: BoostrFrame): void
  /** The connection to a rank has ended; whatever waits for it ends too. */
  peerGone(rank: number): void
  /**
   * The payload of a KV_CACHE begins. False: the node does not want it and has forgotten it; the driver drops its bytes
   * while they come. Throws as `receive`. Absent: the node takes no KV, and the tag is unknown on its connections.
   */
  beginKv?(fromRank: number, length: number): boolean
  /** Nothing comes any more: timers end, so that the process can. Idempotent. */
  close(): void
}

/**
 * How careful a node is with its peers. `baton`: every peer is Baton. `boostr`: a peer may be the original, which takes
 * one request at a time, pairs KV by order, and breaks on a message that it does not expect.
 */
export type BoostrPeers = 'baton' | 'boostr'
