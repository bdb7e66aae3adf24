/**
 * Asks a worker with a known address one or several questions over a short connection with the usual authentication.
 */
import { addressText, BatonError } from '../../base/index.ts'
import { CARD_NEWS, decodeAnswer, encodeAsk, TAG, tagName } from '../../wire/index.ts'
import { WireSocket } from '../link/wire-socket.ts'
import { dialWire, wireFailure } from '../link/wire-tls.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface AskWorkerOptions {
  readonly host: string
  readonly port: number
  readonly software: string
  readonly secret?: string
  readonly tls?: WireTls
  /** For the connection, and for each answer. */
  readonly timeoutMs: number
}

/** A lost worker is noticed earlier here than by its requests. */
const KEPT = { timing: { pingEveryMs: 5_000, silenceMs: 12_000, handshakeMs: 5_000 } }

/** A connection that stays open reports what the worker sends unasked, and its end. */
export interface ConversationListener {
  /** The card as received; empty: the worker accepts no requests now. */
  onCard(payload: Uint8Array): void
  onClosed(reason: BatonError): void
}

interface Awaited {
  readonly tag: number
  readonly resolve: (payload: Uint8Array) => void
  readonly reject: (reason: BatonError) => void
}

export class WorkerConversation {
  readonly #options: AskWorkerOptions
  readonly #listener: ConversationListener | null
  #isOpen = false
  #wire: WireSocket | null = null
  #awaited: Awaited | null = null
  #failure: BatonError | null = null

  private constructor(options: AskWorkerOptions, listener: ConversationListener | null) {
    this.#options = options
    this.#listener = listener
  }

  /** Rejects when the worker cannot be reached or has another secret; a listener is told about later events. */
  static async open(
    options: AskWorkerOptions,
    listener: ConversationListener | null = null,
  ): Promise<WorkerConversation> {
    const conversation = new WorkerConversation(options, listener)
    await conversation.#dial()
    return conversation
  }

  /** The worker's answer to a question, unchecked. Rejects with its error, or with the reason why there is none. */
  async ask(kind: 'command' | 'text', question: unknown): Promise<unknown> {
    const [askTag, tag] =
      kind === 'command' ? [TAG.COMMAND_ASK, TAG.COMMAND] : [TAG.TEXT_ASK, TAG.TEXT]
    const payload = await this.#exchange(tag, (wire) => encodeAsk(wire.writer, askTag, question))
    return decodeAnswer(payload, 0, payload.length)
  }

  /** The worker's card as received; empty: the worker accepts no requests now. */
  card(): Promise<Uint8Array> {
    return this.#exchange(TAG.CARD, (wire) => wire.writer.begin(TAG.CARD_ASK).end())
  }

  close(): void {
    this.#wire?.close(new BatonError('transport.disconnected', 'all questions were answered'))
  }

  async #exchange(tag: number, write: (wire: WireSocket) => void): Promise<Uint8Array> {
    const { host, port, timeoutMs } = this.#options
    const wire = this.#wire
    if (wire === null || this.#failure !== null) {
      throw this.#failure ?? new BatonError('transport.disconnected', 'the connection is closed')
    }
    let timer: NodeJS.Timeout | undefined
    try {
      return await new Promise<Uint8Array>((resolve, reject) => {
        this.#awaited = { tag, resolve, reject }
        timer = setTimeout(() => {
          const text = `no ${tagName(tag)} from ${addressText(host, port)} within ${timeoutMs} ms`
          reject(new BatonError('transport.connection_timeout', text))
        }, timeoutMs)
        write(wire)
        wire.flush()
      })
    } finally {
      clearTimeout(timer)
      this.#awaited = null
    }
  }

  #dial(): Promise<void> {
    const { host, port, software, secret, tls, timeoutMs } = this.#options
    return new Promise((resolve, reject) => {
      const fail = (reason: BatonError): void => {
        clearTimeout(timer)
        this.#failure ??= reason
        if (this.#wire === null) socket.destroy()
        reject(reason)
        this.#awaited?.reject(reason)
        if (this.#isOpen) this.#listener?.onClosed(reason)
      }
      const timer = setTimeout(() => {
        const text = `no connection to ${addressText(host, port)} within ${timeoutMs} ms`
        fail(new BatonError('transport.connection_timeout', text))
        this.close()
      }, timeoutMs)
      const onError = (error: Error): void => fail(wireFailure(error))
      const socket = dialWire(tls, { host, port }, () => {
        socket.off('error', onError)
        const capabilities = this.#listener === null ? [] : [CARD_NEWS]
        const self = { role: 'frontend', software, capabilities, limits: {} } as const
        this.#wire = new WireSocket(
          socket,
          { side: 'initiator', self, secret, ...(this.#listener === null ? {} : KEPT) },
          {
            onReady: () => {
              clearTimeout(timer)
              this.#isOpen = true
              resolve()
            },
            onFrame: (tag, bytes, start, end) => this.#onFrame(tag, bytes.slice(start, end)),
            onClosed: fail,
          },
        )
      })
      socket.once('error', onError)
    })
  }

  #onFrame(tag: number, payload: Uint8Array): void {
    if (tag === TAG.LOAD || tag === TAG.DRAINING) return
    const awaited = this.#awaited
    if (awaited?.tag === tag) {
      awaited.resolve(payload)
      return
    }
    if (tag === TAG.CARD && this.#listener !== null) {
      this.#listener.onCard(payload)
      return
    }
    const due = awaited === null ? 'nothing' : tagName(awaited.tag)
    const text = `received ${tagName(tag)} instead of ${due}`
    const fault = new BatonError('transport.protocol', text)
    awaited?.reject(fault)
    this.#wire?.close(fault)
  }
}

/** Sends a single command on a connection of its own. */
export async function commandWorker(
  options: AskWorkerOptions,
  command: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const conversation = await WorkerConversation.open(options)
  try {
    return await conversation.ask('command', command)
  } finally {
    conversation.close()
  }
}
