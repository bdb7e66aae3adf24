/**
 * Stored responses, which can be read and continued, and conversations: lists of items that grow with each
 * response.
 *
 * Each belongs to the tenant that created it and does not exist for others.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { asciiJson } from '../../api/index.ts'
import type { Caller } from '../access/caller.ts'
import type { StateStore } from './state-store.ts'

export interface StoredResponse {
  readonly response: Readonly<Record<string, unknown>>
  /** The input of the model, including earlier turns. */
  readonly input: readonly unknown[]
}

export interface Conversation {
  readonly id: string
  readonly createdSeconds: number
  readonly metadata: unknown
  readonly items: readonly unknown[]
}

/** Limit for the items of one conversation or response; further ones are refused. */
const ITEMS_MAX = 10_000

export class StoredResponses {
  readonly #store: StateStore
  readonly #tenant: string

  constructor(store: StateStore, { key }: Caller) {
    this.#store = store
    this.#tenant = key?.tenant ?? ''
  }

  /** Throws `request.not_found`. */
  response(id: string): StoredResponse {
    return this.#read(id, 'response') as unknown as StoredResponse
  }

  /** All turns up to the end of that response. */
  turnsOf(id: string): readonly unknown[] {
    const { input, response } = this.response(id)
    if (response['status'] === 'in_progress') {
      throw new BatonError('request.conflict', `response \`${id}\` has not ended yet`)
    }
    return [...input, ...(response['output'] as readonly unknown[])]
  }

  /** The output item with this id, which contains the id of its response. Throws `request.not_found`. */
  outputItem(id: string): unknown {
    const name = /^[a-z]+_(.+)_\d+$/.exec(id)?.[1]
    const key = this.keyOf(`resp_${name}`)
    const isKept = name !== undefined && this.#store.get(key) !== undefined
    const output = isKept ? this.response(`resp_${name}`).response['output'] : []
    const found = itemWith(output as readonly unknown[], id)
    if (found === undefined) throw notFound(id, 'item')
    return found
  }

  /** Differs for two tenants that have responses with the same id. */
  keyOf(id: string): string {
    return `${this.#tenant}\u0000${id}`
  }

  keepResponse(id: string, stored: StoredResponse): void {
    this.#store.set(this.keyOf(id), asciiJson(stored))
  }

  has(id: string): boolean {
    return this.#store.get(this.keyOf(id)) !== undefined
  }

  /** Stores a JSON text beside a response, for other processes with the same store. */
  note(id: string, name: string, json: string): void {
    this.#store.set(this.#noteKey(id, name), json)
  }

  readNote(id: string, name: string): string | undefined {
    return this.#store.get(this.#noteKey(id, name))
  }

  dropNote(id: string, name: string): void {
    this.#store.delete(this.#noteKey(id, name))
  }

  /** Throws `request.not_found`. */
  conversation(id: string): Conversation {
    return this.#read(id, 'conversation') as unknown as Conversation
  }

  keepConversation(conversation: Conversation): void {
    if (conversation.items.length > ITEMS_MAX) {
      const text = `a conversation holds at most ${ITEMS_MAX} items`
      throw new BatonError('request.invalid_argument', text, { data: { param: 'items' } })
    }
    this.#store.set(this.keyOf(conversation.id), asciiJson(conversation))
  }

  /** Items added by others meanwhile are kept; a deleted conversation stays deleted. */
  append(id: string, items: readonly unknown[]): void {
    if (this.#store.get(this.keyOf(id)) === undefined) return
    const conversation = this.conversation(id)
    this.keepConversation({ ...conversation, items: [...conversation.items, ...items] })
  }

  /** Throws `request.not_found`. */
  delete(id: string, what: 'response' | 'conversation'): void {
    if (!this.#store.delete(this.keyOf(id))) throw notFound(id, what)
  }

  #read(id: string, what: 'response' | 'conversation'): Record<string, unknown> {
    const json = this.#store.get(this.keyOf(id))
    const prefix = what === 'response' ? 'resp_' : 'conv_'
    const value: unknown = json === undefined || !id.startsWith(prefix) ? null : JSON.parse(json)
    if (!isRecord(value)) throw notFound(id, what)
    return value
  }

  #noteKey(id: string, name: string): string {
    return `${this.keyOf(id)}\u0000${name}`
  }
}

/** Undefined: no item has the id. */
export function itemWith(items: readonly unknown[], id: string): unknown {
  return items.find((item) => isRecord(item) && item['id'] === id)
}

function notFound(id: string, what: string): BatonError {
  const text = `there is no ${what} \`${id.slice(0, 100)}\`, or no longer`
  return new BatonError('request.not_found', text)
}
