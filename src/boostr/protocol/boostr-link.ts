/**
 * The interface of a node of the dialect `boostr` to its transport: sending to a rank. Frames to one rank keep their
 * order and arrive once, or the rank is reported lost (`peerGone` of the node).
 */
import type { BoostrFrame } from './boostr-message.ts'

/** How long what has not begun waits for a peer that was lost to connect again. */
export const REJOIN_MS = 2_000

/** Default for the KV that a worker holds: two payloads of the largest size. */
export const KV_BYTES_MAX = 4 * 1024 ** 3

export interface BoostrLink {
  send(rank: number, frame: BoostrFrame): void
  /**
   * Closes the connection to a rank and opens it again: nothing that is on its way arrives any more, in either
   * direction. The node is told as of any loss, after this call.
   */
  reset(rank: number): void
}

/** What every node offers to its driver. */
export interface BoostrNode {
  /** Throws `transport.protocol` for what no peer may send; the driver then drops that peer. */
  receive(fromRank: number, frame: BoostrFrame): void
  /** The connection to a rank has ended; everything that waits for it ends too. */
  peerGone(rank: number): void
  /** A rank is connected (again). */
  peerBack?(rank: number): void
  /**
   * The payload of a KV_CACHE starts. False: the node does not want it; the driver drops its bytes as they arrive.
   * Throws as `receive`. Absent: the node takes no KV, and the tag is unknown on its connections.
   */
  beginKv?(fromRank: number, length: number): boolean
  /** Nothing arrives any more: timers end, so that the process can exit. Idempotent. */
  close(): void
}

/**
 * The implementation of a node's peers. `baton`: every peer is Baton. `boostr`: a peer may be the original, which
 * handles one request at a time, pairs KV by order, and fails on an unexpected message.
 */
export type BoostrPeers = 'baton' | 'boostr'
