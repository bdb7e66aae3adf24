/**
 * One request in a slot of the engine's thread: its tokens, how many are computed, and the effect of a new token.
 */
import type { RunRequest } from './thread-messages.ts'
import type { TokenChooser } from './token-chooser.ts'

/** The consequence of a chosen token: the sequence continues, or ends. */
export type Verdict = 'goes on' | 'stop' | 'eos' | 'length'

export class Sequence {
  readonly request: RunRequest
  readonly slot: number
  /** Undefined for a prefill worker, which generates no tokens. */
  readonly chooser: TokenChooser | undefined
  /** Tokens that are computed in the shape of a prompt; the rest one by one. */
  readonly prefillTokens: number
  /** Prompt and output so far; the first `tokenCount` entries count. */
  readonly #tokens: Uint32Array
  #tokenCount: number
  /** Tokens whose KV is in the slot. */
  computedTokens = 0
  /**
   * Start of the prompt's last piece, which is computed while the blocks before it are transferred; undefined: there
   * is none.
   */
  tailFrom: number | undefined
  /** The blocks before the last piece were written and announced. */
  isAhead = false
  state: 'prefill' | 'decode' = 'prefill'

  constructor(request: RunRequest, slot: number, chooser: TokenChooser | undefined) {
    this.request = request
    this.slot = slot
    this.chooser = chooser
    const promptTokens = request.tokenIds.length
    this.#tokens = new Uint32Array(promptTokens + request.maxTokens)
    this.#tokens.set(request.tokenIds)
    this.#tokenCount = promptTokens
    this.prefillTokens = Math.max(0, promptTokens - request.resumedTokens - 1)
  }

  get outputTokens(): number {
    return this.#tokenCount - this.request.tokenIds.length
  }

  /** Index of the next output token since the request started, including other workers. */
  get outputIndex(): number {
    return this.outputTokens + this.request.resumedTokens
  }

  /** The token that the next step of this sequence appends. */
  get nextToken(): number {
    return this.#tokens[this.computedTokens] ?? 0
  }

  /** The next step appends the last token, so that one more can be chosen after it. */
  get isAtEnd(): boolean {
    return this.computedTokens === this.#tokenCount - 1
  }

  promptPiece(count: number): Uint32Array {
    return this.#tokens.subarray(this.computedTokens, this.computedTokens + count)
  }

  /** Handles a chosen token. For `stop` and `eos` the token is not part of the output. */
  take(token: number, endTokens: ReadonlySet<number>): Verdict {
    const { stop, eosTokenIds, maxTokens } = this.request
    if (stop.stopTokenIds?.includes(token) === true) return 'stop'
    const isEnd = endTokens.has(token) || eosTokenIds.includes(token)
    if (isEnd && stop.ignoreEos !== true) return 'eos'
    this.#tokens[this.#tokenCount] = token
    this.#tokenCount += 1
    return this.outputTokens >= maxTokens ? 'length' : 'goes on'
  }
}
