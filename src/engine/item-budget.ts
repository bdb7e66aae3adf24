/**
 * Limits what one item of an engine may hold. It is counted before anything is copied or walked: a small object can name
 * the same large list a thousand times, and reading all of it would stop every stream of the process for many seconds.
 */
import { BatonError } from '../base/index.ts'

/** Far below the limit of a frame, so that the rest of the chunk fits, too. */
export const PAYLOAD_BYTES_MAX = 8 * 1024 * 1024
/** Of a value in a payload, besides its text or bytes. */
export const VALUE_BYTES = 9
/** Above the context of any model. */
export const TOKENS_MAX = 2 ** 22
/** Log-probabilities with all alternatives; more than a frame can carry. */
export const SCORES_MAX = 2 ** 20

interface ItemLimit {
  readonly rule: 'payload-invalid' | 'item-too-large'
  readonly most: number
  readonly what: string
}

const TOKENS: ItemLimit = { rule: 'item-too-large', most: TOKENS_MAX, what: 'token ids' }
export const SCORES: ItemLimit = {
  rule: 'item-too-large',
  most: SCORES_MAX,
  what: 'log-probabilities',
}
export const PAYLOAD: ItemLimit = {
  rule: 'payload-invalid',
  most: PAYLOAD_BYTES_MAX,
  what: 'bytes of `engineData` and `prefillResult`',
}

/** What is left of a limit that several parts of an item share. */
export class ItemBudget {
  readonly #limit: ItemLimit
  #left: number

  constructor(limit: ItemLimit) {
    this.#limit = limit
    this.#left = limit.most
  }

  /** Throws if the item has too much. `count` may be any value: it is the length that a list of the engine reports. */
  take(count: number, size = 1): void {
    this.#left -= count * size
    if (!(count >= 0 && this.#left >= 0)) throw overLimit(this.#limit)
  }
}

/** Token ids need no budget, because they are in one list. */
export function checkTokenCount(count: number): void {
  if (count > TOKENS_MAX) throw overLimit(TOKENS)
}

function overLimit({ rule, most, what }: ItemLimit): BatonError {
  return new BatonError(
    'backend.contract_violation',
    `the engine violated the stream contract (${rule}): more than ${most} ${what} in one item; yield several items`,
    { data: { rule, limit: most } },
  )
}
