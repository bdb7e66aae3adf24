/**
 * One connection to NATS with a bucket, which is restored after every loss.
 *
 * connecting ──▶ up ──▶ away ──▶ up …        close ▶ closed, from any state
 *
 * The bucket may be in the server's memory; a restarted server has none and gets a new one. Users of the session are
 * told `connected` when messages can be sent again, `up` (each time with a bucket that may be empty) and `away`. In a
 * cluster that elects a new leader of the bucket, seconds can pass between `connected` and `up`. The client library is
 * loaded with the first session.
 *
 * The bucket may also be deleted while everybody is connected, of which the server tells nobody. A session with `askMs`
 * asks for it, so that the bucket is made again, and so that its users notice when another process has done that.
 */
import type { KV, Kvm, KvOptions } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { BatonError, messageOf } from '../../base/index.ts'
import { checkBucket } from './bucket-check.ts'
import { connectOptions, RETRY_MS } from './connect-options.ts'
import type { NatsAddress } from './nats-address.ts'
import { serverRefusal } from './server-refusal.ts'

interface NatsUser {
  /** Messages can be sent again; the bucket may still be missing. */
  connected?(): void
  /** The connection and the bucket exist; what was known about the bucket may be outdated. */
  up(): void
  /** Called once per reason in a row, until `up`. */
  away(why: string): void
  /** The server refuses a subject to this login; everything else works. */
  refused?(why: string): void
  /** A message to other frontends was not sent; cards are not concerned. */
  notTold?(why: string): void
}

interface NatsSessionOptions {
  readonly address: NatsAddress
  /** The name after the address's prefix. */
  readonly bucket: string
  /** Used when the bucket is created. */
  readonly bucketOptions: Partial<KvOptions>
  /** How long an entry must stay that is not written again, also in a bucket that somebody else has made. */
  readonly keepMs: number
  readonly pingMs: number
  /** How often it asks whether its bucket is still there. Absent: never. */
  readonly askMs?: number
}

const REQUEST_MS = 2_000
const CLOSE_MS = 2_000
/** Enough for the bucket to survive the loss of one server. */
const REPLICAS = 3
const REFUSED = 'NATS refuses the connection'
/** The client library's names of errors. */
const LOGIN_ERRORS: ReadonlySet<string> = new Set([
  'AuthorizationError',
  'UserAuthenticationExpiredError',
])

export class NatsSession {
  readonly #options: NatsSessionOptions
  /** With the reason that each was told last; null: none since it was told that the session is up. */
  readonly #users = new Map<NatsUser, string | null>()
  #opening: Promise<void> | null = null
  #connection: NatsConnection | null = null
  #bucket: KV | null = null
  /** When the server made the bucket; another one with its name was made at another time. */
  #madeAt: string | null = null
  #asking: Promise<void> | null = null
  #askAgain: NodeJS.Timeout | null = null
  #awaySince: string | null = 'not connected yet'
  #isConnected = false
  #closed = false
  #endOpening: (why: BatonError) => void = () => undefined
  /** Rejects when the session is closed. */
  readonly #closing = new Promise<never>((_, reject) => {
    this.#endOpening = reject
  })

  constructor(options: NatsSessionOptions) {
    this.#options = options
    // Possibly nothing awaits it.
    this.#closing.catch(() => undefined)
  }

  /** True while messages can be sent, whether or not the bucket is available. */
  get isConnected(): boolean {
    return this.#isConnected
  }

  get isUp(): boolean {
    return this.#bucket !== null && this.#awaySince === null
  }

  /** Why it is not up; null: it is up. */
  get awayReason(): string | null {
    return this.#awaySince
  }

  get connection(): NatsConnection {
    if (this.#connection === null) throw unavailable('not connected')
    return this.#connection
  }

  get bucket(): KV {
    if (this.#bucket === null) throw unavailable(this.#awaySince ?? 'not connected')
    return this.#bucket
  }

  /**
   * When the server made the bucket that is there now: another one of its name was made at another time. Rejects when
   * there is none, or the server does not answer.
   */
  async madeAt(): Promise<string> {
    return await madeAtOf(this.bucket)
  }

  /** Waits for a server; rejects with `config.invalid` when it refuses this process. Idempotent. */
  open(): Promise<void> {
    this.#opening ??= Promise.race([this.#open(), this.#closing])
    return this.#opening
  }

  /** Subscribes to the session's changes; returns a function that unsubscribes. */
  use(user: NatsUser): () => void {
    this.#users.set(user, null)
    return () => void this.#users.delete(user)
  }

  /** True when the server has answered, so that everything it sent before has arrived. */
  async answers(): Promise<boolean> {
    if (!this.isUp) return false
    const late = new Promise<boolean>((resolve) => {
      setTimeout(() => resolve(false), REQUEST_MS).unref()
    })
    const flushed = this.connection.flush().then(
      () => true,
      () => false,
    )
    return await Promise.race([flushed, late])
  }

  /** Frees the space of an entry without a message to watchers. */
  async erase(key: string, operation: 'PUT' | 'DEL'): Promise<void> {
    const entry = await this.bucket.get(key)
    if (entry?.operation !== operation) return
    const subject = `$JS.API.STREAM.MSG.DELETE.KV_${this.#bucketName}`
    const asked = JSON.stringify({ seq: entry.revision, no_erase: true })
    await this.connection.request(subject, asked, { timeout: REQUEST_MS })
  }

  /** Reports that a message to other frontends was not sent. */
  notTold(why: string): void {
    for (const user of this.#users.keys()) user.notTold?.(why)
  }

  /** Resolves when it is known whether the bucket is still the same; otherwise it is made, and the users are told. */
  askForBucket(): Promise<void> {
    this.#asking ??= this.#askForBucket().finally(() => (this.#asking = null))
    return this.#asking
  }

  async #askForBucket(): Promise<void> {
    const bucket = this.#bucket
    if (bucket === null || !this.isUp) return
    let why = `the bucket ${this.#bucketName} of NATS was deleted`
    try {
      const madeAt = await madeAtOf(bucket)
      if (madeAt === this.#madeAt) return
      why += ' and made again'
    } catch (thrown) {
      // Everything else says nothing about the bucket: a lost answer, a cluster that elects its leader.
      if (!isMissing(thrown)) return
    }
    if (bucket !== this.#bucket || !this.isUp) return
    this.#away(why)
    await this.#prepareAgain()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#users.clear()
    if (this.#askAgain !== null) clearInterval(this.#askAgain)
    // A running attempt to connect is not awaited; it closes its connection itself.
    this.#endOpening(unavailable('the connection was closed'))
    const connection = this.#connection
    this.#connection = null
    this.#isConnected = false
    this.#bucket = null
    if (connection === null) return
    // The library may wait for a connection that it is about to open again; a process that ends does not.
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, CLOSE_MS)
      void connection.close().finally(() => {
        clearTimeout(late)
        resolve()
      })
    })
  }

  async #open(): Promise<void> {
    const { address, pingMs } = this.#options
    const { connect } = await loadLibrary(() => import('@nats-io/transport-node'))
    while (!this.#closed) {
      try {
        const connection = await connect(await connectOptions(address, pingMs))
        if (this.#closed) return await connection.close()
        this.#connection = connection
        this.#isConnected = true
        void this.#follow(connection)
        await this.#prepare()
        return
      } catch (thrown) {
        if (thrown instanceof BatonError) throw thrown
        const why = messageOf(thrown)
        if (/authorization|authentication|permissions|credentials/i.test(why)) {
          const text = `NATS at ${address.servers.join()} refuses the connection: ${why}`
          throw new BatonError('config.invalid', text, { cause: thrown })
        }
        const refusal = await serverRefusal(address.servers)
        this.#away(refusal === null ? why : `${REFUSED}: ${refusal}`)
        await pause(RETRY_MS)
      }
    }
  }

  async #follow(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (this.#closed) return
      if (status.type === 'disconnect' || status.type === 'staleConnection') {
        // An attempt to connect again ends so, too. Its reason may be lost, and is no other one then: a server that
        // closes the connection while the client still sends destroys what it has said.
        if (this.#isConnected) this.#away('the connection to NATS was lost')
        this.#isConnected = false
      } else if (status.type === 'error') {
        this.#refused(status.error)
      } else if (status.type === 'reconnect') {
        this.#isConnected = true
        for (const user of this.#users.keys()) user.connected?.()
        void this.#prepareAgain()
      }
    }
  }

  #refused({ name, message }: Error): void {
    if (name === 'PermissionViolationError') {
      for (const user of this.#users.keys()) user.refused?.(message)
      return
    }
    const isLogin = LOGIN_ERRORS.has(name)
    // Other faults that the server names while it is connected either have no consequence, or it disconnects.
    if (!isLogin && this.#isConnected) return
    this.#away(isLogin ? `NATS refuses the login: ${message}` : `${REFUSED}: ${message}`)
    // A login that was accepted and is not any more: the server disconnects next.
    this.#isConnected = false
  }

  /**
   * Retries until the bucket exists or the connection is lost again, because a server that has just started is not
   * ready at once. Rejects with `config.invalid` if there is something else in its place.
   */
  async #prepare(): Promise<void> {
    const { bucketOptions, keepMs } = this.#options
    const bucket = this.#bucketName
    const { Kvm } = await loadLibrary(() => import('@nats-io/kv'))
    while (!this.#closed && this.#connection !== null) {
      try {
        const options = { history: 1, timeout: REQUEST_MS, ...bucketOptions }
        const made = await makeBucket(new Kvm(this.#connection), this.#connection, bucket, options)
        await checkBucket(made, keepMs)
        const madeAt = await madeAtOf(made)
        if (this.#closed) return
        this.#bucket = made
        this.#madeAt = madeAt
        this.#awaySince = null
        this.#askRegularly()
        for (const user of this.#users.keys()) {
          this.#users.set(user, null)
          user.up()
        }
        return
      } catch (thrown) {
        if (thrown instanceof BatonError) throw thrown
        this.#away(`no bucket ${bucket}: ${messageOf(thrown)}`)
        await pause(RETRY_MS)
      }
    }
  }

  /** A bucket that is unfit now may be mended while this process runs. */
  async #prepareAgain(): Promise<void> {
    while (!this.#closed) {
      try {
        return await this.#prepare()
      } catch (thrown) {
        this.#away(messageOf(thrown))
        await pause(RETRY_MS)
      }
    }
  }

  #askRegularly(): void {
    const { askMs } = this.#options
    if (askMs === undefined || this.#askAgain !== null) return
    this.#askAgain = setInterval(() => void this.askForBucket(), askMs)
    this.#askAgain.unref()
  }

  get #bucketName(): string {
    const { address, bucket } = this.#options
    return `${address.prefix}_${bucket}`
  }

  #away(why: string): void {
    if (this.#closed) return
    this.#awaySince = why
    for (const [user, told] of this.#users) {
      if (told === why) continue
      this.#users.set(user, why)
      user.away(why)
    }
  }
}

/**
 * In a cluster the bucket has several replicas, so that it survives the loss of one server. A bucket that was
 * created while servers were missing gets its replicas later.
 */
async function makeBucket(
  kvm: Kvm,
  connection: NatsConnection,
  bucket: string,
  options: Partial<KvOptions>,
): Promise<KV> {
  if (connection.info?.cluster === undefined) {
    return await kvm.create(bucket, options)
  }
  // A cluster with fewer servers, or one that is incomplete, cannot have that many replicas.
  const made = await kvm
    .create(bucket, { ...options, replicas: REPLICAS })
    .catch(() => kvm.create(bucket, options))
  const { replicas, streamInfo } = await made.status()
  if (replicas >= REPLICAS) return made
  const config = JSON.stringify({ ...streamInfo.config, num_replicas: REPLICAS })
  // The result is ignored: the bucket exists in any case.
  await connection
    .request(`$JS.API.STREAM.UPDATE.KV_${bucket}`, config, { timeout: REQUEST_MS })
    .catch(() => undefined)
  return made
}

async function madeAtOf(bucket: KV): Promise<string> {
  const { streamInfo } = await bucket.status()
  return streamInfo.created
}

function isMissing(thrown: unknown): boolean {
  return thrown instanceof Error && thrown.name === 'StreamNotFoundError'
}

export function unavailable(why: string, cause?: unknown): BatonError {
  const text = `NATS is unavailable: ${why}`
  return new BatonError('discovery.unavailable', text, cause === undefined ? {} : { cause })
}

async function loadLibrary<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (cause) {
    const text = 'NATS needs the packages @nats-io/transport-node and @nats-io/kv: npm install them'
    throw new BatonError('config.invalid', text, { cause })
  }
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delayMs)
  })
}
