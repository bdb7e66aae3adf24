/**
 * The output of one simulated request: the token at each index, and when and why it ends.
 *
 * Everything is known before the first step; the scheduler needs only the number of tokens.
 */
import type { FinishReason, GenerateRequest } from '../../request/index.ts'
import { BiasedTokens } from './biased-tokens.ts'
import { SimTokens } from './sim-tokens.ts'

/** Simulates a reasoning model: this share of the output is between the two tokens. */
export interface SimReasoning {
  readonly startTokenId: number
  readonly endTokenId: number
  /** 0 to 1. */
  readonly ratio: number
}

interface SimOutputOptions {
  readonly tokens: SimTokens
  readonly request: GenerateRequest
  /** Maximum number of tokens. */
  readonly lengthMax: number
  /** The request has no maximum: at `lengthMax` the output ends with `eos`. */
  readonly endsByItself: boolean
  /** The exact tokens, from the beginning of the whole output. */
  readonly script?: ArrayLike<number> | undefined
  readonly reasoning?: SimReasoning | undefined
}

export class SimOutput {
  /** Number of tokens generated here, including one that stops the output. */
  readonly outputTokens: number
  readonly finish: FinishReason
  /** The id that ends the output. */
  readonly stopTokenId: number | undefined
  /** The stop token is visible to the client. */
  readonly showsStop: boolean
  readonly #tokens: SimTokens | BiasedTokens
  readonly #stream: number
  readonly #resumed: number
  readonly #script: ArrayLike<number> | undefined
  readonly #reasoning: SimReasoning | undefined
  readonly #thinkingTokens: number

  constructor(options: SimOutputOptions) {
    const { tokens, request, lengthMax, endsByItself, script, reasoning } = options
    const { logitBias } = request.sampling
    this.#tokens = logitBias === undefined ? tokens : new BiasedTokens(tokens, logitBias)
    this.#stream = tokens.streamOf(request)
    this.#resumed = request.resumedTokens ?? 0
    this.#script = script
    this.#reasoning = reasoning
    const wholeLength = this.#resumed + lengthMax
    this.#thinkingTokens = thinkingTokens(wholeLength, reasoning?.ratio ?? 0)
    this.showsStop = request.stop.includeStopInOutput === true

    const scripted = script === undefined ? Infinity : Math.max(1, script.length - this.#resumed)
    const length = Math.min(lengthMax, scripted)
    const stopAt = this.#firstStop(request, length)
    if (stopAt === null) {
      this.outputTokens = length
      this.finish = endsByItself || scripted < lengthMax ? 'eos' : 'length'
      return
    }
    const stopTokenId = this.tokenAt(stopAt)
    this.outputTokens = stopAt + 1
    this.stopTokenId = stopTokenId
    this.finish = request.stop.stopTokenIds?.includes(stopTokenId) === true ? 'stop' : 'eos'
  }

  /** The k-th token generated here; tokens of an earlier worker (migration) precede it. */
  tokenAt(k: number): number {
    const index = this.#resumed + k
    const scripted = this.#script?.[index]
    if (scripted !== undefined) return scripted
    if (index < this.#thinkingTokens) {
      if (index === 0) return this.#reasoning!.startTokenId
      if (index === this.#thinkingTokens - 1) return this.#reasoning!.endTokenId
    }
    return this.#tokens.tokenAt(this.#stream, index)
  }

  /** Writes the tokens from `k` on (see `tokenAt`) to `target[at]` and following. */
  fill(k: number, target: Uint32Array, at: number): void {
    const tokens = this.#tokens
    if (tokens instanceof SimTokens && this.#script === undefined && this.#thinkingTokens === 0)
      tokens.fill(this.#stream, this.#resumed + k, target, at, target.length)
    else for (let i = at; i < target.length; i++) target[i] = this.tokenAt(k + i - at)
  }

  #firstStop(request: GenerateRequest, length: number): number | null {
    const { stop, eosTokenIds } = request
    const ends = new Set(stop.stopTokenIds)
    if (stop.ignoreEos !== true) for (const id of eosTokenIds) ends.add(id)
    const canEnd = [...ends].some((id) => this.#script !== undefined || this.#tokens.canSay(id))
    if (!canEnd) return null
    for (let k = Math.max(0, (stop.minTokens ?? 0) - this.#resumed); k < length; k++) {
      if (ends.has(this.tokenAt(k))) return k
    }
    return null
  }
}

function thinkingTokens(outputMax: number, ratio: number): number {
  const wanted = Math.floor(outputMax * ratio)
  return outputMax < 2 || wanted === 0 ? 0 : Math.min(Math.max(wanted, 2), outputMax)
}
