/** A publisher of KV events on real ZeroMQ sockets whose live batches and replays the test lets through or not. */
import type { ZmqModule } from '../../src/host/simengine/zmq-kv-rank.ts'

type Sockets = Pick<InstanceType<ZmqModule['Router']>, 'bind' | 'send' | 'close' | 'lastEndpoint'>
type Router = Sockets & AsyncIterable<readonly Buffer[]>

const EMPTY = new Uint8Array(0)

export class KvPublisher {
  readonly #publisher: Sockets
  readonly #router: Router
  #batches: Uint8Array[] = []
  #gate: Promise<void> = Promise.resolve()
  #open: () => void = () => undefined
  #replaysHeld = 0

  private constructor(zmq: ZmqModule) {
    this.#publisher = new zmq.Publisher({ linger: 0 })
    this.#router = new zmq.Router({ linger: 0 }) as Router
  }

  static async listen(zmq: ZmqModule): Promise<KvPublisher> {
    const made = new KvPublisher(zmq)
    for (const socket of [made.#publisher, made.#router]) await socket.bind('tcp://127.0.0.1:*')
    void made.#answer()
    return made
  }

  get events(): string {
    return this.#publisher.lastEndpoint ?? ''
  }

  get replay(): string {
    return this.#router.lastEndpoint ?? ''
  }

  /** Replays that have sent their batches and wait for `releaseReplays`. */
  get replaysHeld(): number {
    return this.#replaysHeld
  }

  /** Keeps a batch for replays; its number. */
  keep(payload: Uint8Array): number {
    return this.#batches.push(payload) - 1
  }

  async send(number: number): Promise<void> {
    await this.#publisher.send([EMPTY, numberOf(number), this.#batches[number]!])
  }

  /** The numbers begin again, as in a new process, although the connections stay. */
  restart(): void {
    this.#batches = []
  }

  holdReplays(): void {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve
    })
  }

  releaseReplays(): void {
    this.#open()
  }

  close(): void {
    this.#open()
    this.#publisher.close()
    this.#router.close()
  }

  async #answer(): Promise<void> {
    for await (const [asker, empty, from] of this.#router) {
      const head = [asker!, empty!]
      const first = Number(from!.readBigUInt64BE())
      for (const [number, payload] of [...this.#batches.entries()].slice(first)) {
        await this.#router.send([...head, EMPTY, numberOf(number), payload])
      }
      this.#replaysHeld += 1
      await this.#gate
      this.#replaysHeld -= 1
      await this.#router.send([...head, EMPTY, new Uint8Array(8).fill(0xff), EMPTY])
    }
  }
}

function numberOf(number: number): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(number))
  return bytes
}
