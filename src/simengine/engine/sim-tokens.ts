/**
 * The output tokens of the simulated engine: pseudo-random ordinary tokens, a pure function of (seed, prompt, index).
 *
 * So the outputs of an aggregated and a disaggregated run are equal, and a migrated request continues with the same
 * sequence.
 */
import { BatonError } from '../../base/index.ts'
import type { GenerateRequest, TokenLogprobs } from '../../request/index.ts'

/** `[first, end)`, or the list of ids to choose from. */
export type TokenChoice = readonly [first: number, end: number] | Uint32Array

const LOGPROBS_MAX = 20

function mix(a: number, b: number): number {
  let x = (a ^ Math.imul(b + 0x9e3779b9, 0x85ebca6b)) | 0
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d)
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b)
  return (x ^ (x >>> 16)) >>> 0
}

export class SimTokens {
  readonly #seed: number
  readonly #choice: TokenChoice
  readonly #first: number
  readonly #count: number
  readonly #listed: ReadonlySet<number> | null

  constructor(seed: number, choice: TokenChoice) {
    this.#seed = seed
    this.#choice = choice
    const isList = choice instanceof Uint32Array
    this.#listed = isList ? new Set(choice) : null
    this.#first = isList ? 0 : choice[0]
    this.#count = isList ? choice.length : choice[1] - choice[0]
    if (!Number.isSafeInteger(this.#count) || this.#count < 1 || this.#first < 0)
      throw new BatonError('config.invalid', 'the range of output tokens is empty')
  }

  /** The state that determines all tokens of a request. Tokens from an earlier worker do not count as prompt. */
  streamOf(request: GenerateRequest): number {
    const { tokenIds, resumedTokens, sampling } = request
    const promptEnd = tokenIds.length - (resumedTokens ?? 0)
    let hash = mix(this.#seed, sampling.seed ?? 0)
    for (let i = 0; i < promptEnd; i++) hash = Math.imul(hash ^ tokenIds[i]!, 0x01000193)
    return mix(hash, promptEnd)
  }

  /** The token at `index` of the whole output (including tokens of earlier workers). */
  tokenAt(stream: number, index: number): number {
    const draw = this.#draw(stream, index)
    return this.#choice instanceof Uint32Array ? this.#choice[draw]! : this.#first + draw
  }

  /** Writes the tokens from `index` on to `target[at]` … `target[until - 1]`. */
  fill(stream: number, index: number, target: Uint32Array, at: number, until: number): void {
    const choice = this.#choice
    const list = choice instanceof Uint32Array ? choice : null
    for (let i = at, from = index; i < until; i++, from++) {
      const draw = this.#draw(stream, from)
      target[i] = list === null ? this.#first + draw : list[draw]!
    }
  }

  /** The remainder by multiplication of the quotient: exact below 2^53, ten times as fast as `%` for unsigned 32 bits. */
  #draw(stream: number, index: number): number {
    const drawn = mix(stream, index)
    return drawn - Math.floor(drawn / this.#count) * this.#count
  }

  /** A pseudo-random number in [0, 1) from the same function. */
  shareAt(stream: number, index: number): number {
    return mix(stream, index) / 0x100000000
  }

  /** Number of distinct tokens. */
  get count(): number {
    return this.#count
  }

  /** The first token that is not in `others`, or the first of all. */
  firstBut(others: ReadonlySet<number>): number {
    const at = (draw: number): number =>
      this.#choice instanceof Uint32Array ? this.#choice[draw]! : this.#first + draw
    for (let draw = 0; draw < this.#count; draw++) if (!others.has(at(draw))) return at(draw)
    return at(0)
  }

  logprobsOf(tokenId: number, topCount: number): TokenLogprobs {
    const logprob = -0.1 * (tokenId % 10)
    const count = Math.min(topCount, LOGPROBS_MAX)
    const top = Array.from({ length: count }, (_, rank) => ({
      tokenId: tokenId + rank,
      logprob: logprob - 0.1 * rank,
    }))
    return { tokenId, logprob, top }
  }

  /** Whether the id can be generated at all. */
  canSay(id: number): boolean {
    if (this.#listed !== null) return this.#listed.has(id)
    return id >= this.#first && id < this.#first + this.#count
  }
}
