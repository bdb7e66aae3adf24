/**
 * A TCP proxy with network faults: it drops data (and breaks the connections), holds data back during a partition,
 * or delays it.
 */
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

/** `lose`: all bytes are dropped silently. `hold`: bytes wait and arrive later, as with TCP retransmission. */
type State = 'open' | 'lose' | 'hold'

/** One direction of one connection; bytes leave in the order in which they arrived. */
class Flow {
  readonly #to: Socket
  readonly #waiting: { readonly bytes: Buffer; readonly atMs: number }[] = []
  #timer: NodeJS.Timeout | null = null
  state: State = 'open'
  delayMs = 0

  constructor(to: Socket) {
    this.#to = to
  }

  take(bytes: Buffer): void {
    if (this.state === 'lose') return
    this.#waiting.push({ bytes, atMs: performance.now() + this.delayMs })
    this.release()
  }

  /** Forwards all data that is due. */
  release(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.state === 'hold') return
    for (;;) {
      const [first] = this.#waiting
      if (first === undefined) return
      const waitMs = first.atMs - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.release(), waitMs)
        return
      }
      this.#waiting.shift()
      if (this.#to.writable) this.#to.write(first.bytes)
    }
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#waiting.length = 0
  }
}

interface Link {
  readonly ends: readonly Socket[]
  readonly flows: readonly Flow[]
}

export class FaultyProxy {
  readonly #targetPort: number
  readonly #host: string
  readonly #links = new Set<Link>()
  readonly #server = createServer((client) => this.#onClient(client))
  /** For future connections. */
  #state: State = 'open'
  #delayMs = 0

  private constructor(targetPort: number, host: string) {
    this.#targetPort = targetPort
    this.#host = host
  }

  /** Listens on its own port of the target's address, or on the target's port of another address. */
  static async start(
    targetPort: number,
    host = '127.0.0.1',
    otherHost?: string,
  ): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(targetPort, host)
    const [at, port] = otherHost === undefined ? [host, 0] : [otherHost, targetPort]
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once('error', reject)
      proxy.#server.listen(port, at, resolve)
    })
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  cut(): void {
    this.#setState('lose')
  }

  /** Bytes were dropped, so the connections opened before cannot be used any more. */
  mend(): void {
    this.#setState('open')
    for (const { ends } of this.#links) for (const socket of ends) socket.destroy()
  }

  /**
   * Drops all data of one open connection, chosen by `draw` (0 to 1). Returns a function that closes the
   * connection.
   */
  cutOne(draw: number): () => void {
    const link = [...this.#links][Math.floor(draw * this.#links.size)]
    for (const flow of link?.flows ?? []) flow.state = 'lose'
    return () => link?.ends.forEach((socket) => socket.destroy())
  }

  /** A partition that connections survive. */
  hold(): void {
    this.#setState('hold')
  }

  letGo(): void {
    this.#setState('open')
  }

  /** From now on all data is delayed by this time in both directions. */
  delay(delayMs: number): void {
    this.#delayMs = delayMs
    for (const flow of this.#flows()) flow.delayMs = delayMs
  }

  async close(): Promise<void> {
    for (const { ends } of this.#links) for (const socket of ends) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #setState(state: State): void {
    this.#state = state
    for (const flow of this.#flows()) {
      flow.state = state
      flow.release()
    }
  }

  #flows(): readonly Flow[] {
    return [...this.#links].flatMap(({ flows }) => flows)
  }

  #onClient(client: Socket): void {
    const target = connect(this.#targetPort, this.#host)
    const flows = [new Flow(target), new Flow(client)]
    const link: Link = { ends: [client, target], flows }
    this.#links.add(link)
    for (const [index, flow] of flows.entries()) {
      flow.state = this.#state
      flow.delayMs = this.#delayMs
      const from = link.ends[index] as Socket
      from.setNoDelay(true)
      from.on('data', (bytes: Buffer) => flow.take(bytes))
      from.on('error', () => undefined)
      from.on('close', () => {
        this.#links.delete(link)
        for (const each of flows) each.stop()
        for (const end of link.ends) end.destroy()
      })
    }
  }
}
