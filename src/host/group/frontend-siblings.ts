/**
 * The messages between this frontend and the others behind the same port: announcements and questions.
 */
import type { Relayed, SiblingMessage } from './group-message.ts'

type Listener = (body: unknown) => void
type Answerer = (body: unknown) => Promise<unknown>

interface Asked {
  readonly answers: unknown[]
  expected: number | null
  finish(): void
}

/** A sibling that does not answer within this time is skipped. */
const ANSWER_MS = 1_000

export class FrontendSiblings {
  readonly #listeners = new Map<string, Listener>()
  readonly #answerers = new Map<string, Answerer>()
  readonly #asked = new Map<number, Asked>()
  #lastId = 0
  readonly #receive = (message: unknown): void => this.#onMessage(message as Relayed)

  /** Null: this process has no siblings. */
  static ofThisProcess(isOneOfSeveral: boolean): FrontendSiblings | null {
    return isOneOfSeveral && process.send !== undefined ? new FrontendSiblings() : null
  }

  private constructor() {
    process.on('message', this.#receive)
  }

  tell(topic: string, body: unknown): void {
    this.#send({ kind: 'told', topic, body })
  }

  onTold(topic: string, listener: Listener): void {
    this.#listeners.set(topic, listener)
  }

  /** The answers of the others, unordered. */
  ask(topic: string, body: unknown): Promise<readonly unknown[]> {
    const id = ++this.#lastId
    return new Promise((resolve) => {
      const timer = setTimeout(() => asked.finish(), ANSWER_MS)
      const asked: Asked = {
        answers: [],
        expected: null,
        finish: () => {
          clearTimeout(timer)
          this.#asked.delete(id)
          resolve(asked.answers)
        },
      }
      this.#asked.set(id, asked)
      this.#send({ kind: 'asked', topic, id, body })
    })
  }

  onAsked(topic: string, answerer: Answerer): void {
    this.#answerers.set(topic, answerer)
  }

  close(): void {
    process.off('message', this.#receive)
    for (const asked of this.#asked.values()) asked.finish()
  }

  #send(message: SiblingMessage): void {
    // The parent may just have died; the event `disconnect` handles that.
    if (process.connected) process.send?.(message, undefined, {}, () => undefined)
  }

  #onMessage(relayed: Relayed): void {
    const { from, message } = relayed
    if (message === undefined) return
    switch (message.kind) {
      case 'told':
        this.#listeners.get(message.topic)?.(message.body)
        return
      case 'asked':
        void this.#answer(from, message)
        return
      case 'answered':
        this.#asked.get(message.id)?.answers.push(message.body)
        this.#finishWhenAll(message.id)
        return
      case 'asking': {
        const asked = this.#asked.get(message.id)
        if (asked !== undefined) asked.expected = message.siblings
        this.#finishWhenAll(message.id)
      }
    }
  }

  #finishWhenAll(id: number): void {
    const asked = this.#asked.get(id)
    if (asked?.expected !== null && asked?.answers.length === asked?.expected) asked?.finish()
  }

  async #answer(
    to: number,
    { topic, id, body }: Extract<SiblingMessage, { kind: 'asked' }>,
  ): Promise<void> {
    const answer = await this.#answerers.get(topic)?.(body)
    this.#send({ kind: 'answered', to, id, body: answer ?? null })
  }
}
