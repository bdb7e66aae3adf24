/**
 * Ends replies whose clients read nothing any more. `unsent-bytes.ts` limits how much may wait for a client; this limits
 * for how long. Otherwise a client that stops below those limits would keep its connection, and what its reply holds,
 * for ever.
 *
 * A client is allowed more time if more waits for it: Node shows that a client reads only at the end of each write, and
 * one write may be a whole reply, or all that was added while the write before it was sent.
 *
 * Time is counted in looks, not taken from a clock: after this process was suspended, the first look comes before the
 * sockets report what was read.
 */
import type { Client } from './client.ts'
import { cutReply, isItsTurn } from './cut-reply.ts'
import type { SlowReader } from './cut-reply.ts'

const LOOK_MS = 30_000
const UNREAD_MS = 300_000
/** A client that reads so much is never disconnected. Characters of a text, bytes of a file. */
const UNITS_PER_SECOND = 4096

interface Stall {
  readonly taken: number
  readonly ms: number
}

export class StalledReaders {
  readonly #clients: ReadonlySet<Client>
  readonly #onCut: (reader: SlowReader) => void
  /** Clients for which something waited at the last look. */
  #stalls = new Map<Client, Stall>()
  #timer: NodeJS.Timeout | undefined

  /** `clients`: those that have not got their whole reply yet. */
  constructor(clients: ReadonlySet<Client>, onCut: (reader: SlowReader) => void) {
    this.#clients = clients
    this.#onCut = onCut
  }

  watch(): void {
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const stalls = new Map<Client, Stall>()
    for (const client of this.#clients) {
      if (!hasUnread(client)) continue
      const bytes = client.res.writableLength
      const stall = this.#stallOf(client, bytes)
      const limitMs = UNREAD_MS + Math.ceil((bytes / UNITS_PER_SECOND) * 1000)
      if (stall.ms < limitMs) stalls.set(client, stall)
      else cutReply(client, { limit: 'unreadMs', limitMs }, this.#onCut)
    }
    this.#stalls = stalls
  }

  /** A stream may grow faster than its client reads, so what counts is not how much waits. */
  #stallOf(client: Client, bytes: number): Stall {
    const taken = (client.writer?.written ?? 0) - bytes
    const last = this.#stalls.get(client)
    if (last === undefined || taken > last.taken) return { taken, ms: 0 }
    return { taken: last.taken, ms: last.ms + LOOK_MS }
  }
}

/** The head of a reply of HTTP/2 is not counted in its length. It waits if the reply has ended and is not closed. */
function hasUnread({ res }: Client): boolean {
  return isItsTurn(res) && (res.writableLength > 0 || res.writableEnded)
}
