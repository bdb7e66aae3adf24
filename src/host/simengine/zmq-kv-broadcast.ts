/**
 * Publishes the simulated engine's KV events over ZeroMQ, for routers and tools that subscribe to engines as to
 * vLLM.
 *
 * The package `zeromq` is loaded only when this is used.
 */
import { lookup } from 'node:dns/promises'
import { Packr } from 'msgpackr'
import { BatonError } from '../../base/index.ts'
import type {
  KvBroadcastAddresses,
  KvBroadcastPorts,
  SimKvBroadcast,
} from '../../simengine/index.ts'
import { ZmqKvRank } from './zmq-kv-rank.ts'
import type { ZmqModule } from './zmq-kv-rank.ts'

const ZEROMQ_VERSION = '6.8.0'
/** Same as vLLM's `buffer_steps`. */
const BATCHES_KEPT = 10_000
const BYTES_KEPT = 64 * 1024 * 1024

export interface ZmqKvBroadcastOptions {
  readonly host: string
  /** Number of past batches of a rank that can be replayed. Default 10000. */
  readonly batchesKept?: number
  /** Bytes of past batches that are kept. Default 64 MiB. */
  readonly bytesKept?: number
  /** Default: the installed package. */
  readonly load?: () => Promise<unknown>
}

export class ZmqKvBroadcast implements SimKvBroadcast {
  readonly #options: ZmqKvBroadcastOptions
  // Plain arrays without shared records, which every decoder reads.
  readonly #packr = new Packr({ useRecords: false })
  readonly #ranks: ZmqKvRank[] = []
  #isClosed = false

  constructor(options: ZmqKvBroadcastOptions) {
    this.#options = options
  }

  async listen(ports: KvBroadcastPorts): Promise<KvBroadcastAddresses> {
    const { host, batchesKept = BATCHES_KEPT, bytesKept = BYTES_KEPT } = this.#options
    const zmq = await moduleOf(this.#options.load ?? loadZeromq)
    // ZeroMQ does not resolve host names of listening addresses.
    const { address } = await lookup(host)
    const [events, replay]: [string[], string[]] = [[], []]
    for (let rank = 0; rank < ports.ranks; rank++) {
      if (this.#isClosed)
        throw new BatonError('backend.engine_shutdown', 'the engine has been shut down')
      const sockets = new ZmqKvRank(zmq, {
        address,
        eventsPort: portOf(ports.events, rank),
        replayPort: ports.replay === null ? null : portOf(ports.replay, rank),
        batchesKept,
        bytesKept,
      })
      this.#ranks.push(sockets)
      const got = await sockets.listen()
      events.push(got.events)
      if (got.replay !== null) replay.push(got.replay)
    }
    return { events, replay }
  }

  publish(dpRank: number, batch: readonly unknown[]): void {
    this.#ranks[dpRank]?.publish(this.#packr.pack(batch))
  }

  close(): Promise<void> {
    this.#isClosed = true
    for (const rank of this.#ranks) rank.close()
    return Promise.resolve()
  }
}

function portOf(first: number, rank: number): number {
  return first === 0 ? 0 : first + rank
}

function loadZeromq(): Promise<unknown> {
  // The name is in a variable, because the package is optional and must not be needed to compile.
  const name = 'zeromq'
  return import(name)
}

async function moduleOf(load: () => Promise<unknown>): Promise<ZmqModule> {
  try {
    return (await load()) as ZmqModule
  } catch (cause) {
    throw new BatonError(
      'config.invalid',
      `KV events over ZeroMQ (zmq_kv_events_port) need the package zeromq: run \`npm i zeromq@${ZEROMQ_VERSION}\`, or omit the port`,
      { cause },
    )
  }
}
