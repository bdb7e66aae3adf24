/**
 * `logit_bias` of a simulated engine: all of its tokens are equally likely, so a bias of b makes a token e^b times as
 * likely. At 100 nothing else is generated, at -100 the token never is. Tokens outside the engine's range may be
 * biased, too.
 */
import type { Sampling } from '../../request/index.ts'
import type { SimTokens } from './sim-tokens.ts'

/** Maximum number of draws for a token without bias; all tokens of the engine may be biased. */
const DRAWS_MAX = 64
const ODD = 0x9e3779b9

export class BiasedTokens {
  readonly #tokens: SimTokens
  readonly #biases: readonly (readonly [id: number, weight: number])[]
  readonly #biased: ReadonlySet<number>
  readonly #weight: number

  constructor(tokens: SimTokens, biases: NonNullable<Sampling['logitBias']>) {
    this.#tokens = tokens
    // Not as arguments of one call: there may be more than a call can have.
    const highest = Object.values(biases).reduce((most, bias) => Math.max(most, bias), 0)
    this.#biases = Object.entries(biases).map(
      ([id, bias]) => [Number(id), bias <= -100 ? 0 : Math.exp(bias - highest)] as const,
    )
    this.#biased = new Set(this.#biases.map(([id]) => id))
    const inRange = this.#biases.filter(([id]) => tokens.canSay(id)).length
    // Total weight of the tokens without bias, on the same scale.
    this.#weight = highest >= 100 ? 0 : (tokens.count - inRange) * Math.exp(-highest)
  }

  tokenAt(stream: number, index: number): number {
    const sum = this.#biases.reduce((all, [, weight]) => all + weight, 0)
    let draw = this.#tokens.shareAt(stream ^ ODD, index) * (sum + this.#weight)
    for (const [id, weight] of this.#biases) {
      draw -= weight
      if (draw < 0) return id
    }
    for (let nth = 0; nth < DRAWS_MAX; nth++) {
      const token = this.#tokens.tokenAt((stream + Math.imul(nth, ODD)) | 0, index)
      if (!this.#biased.has(token)) return token
    }
    return this.#tokens.firstBut(this.#biased)
  }

  canSay(id: number): boolean {
    return (
      this.#biases.find(([biased]) => biased === id)?.[1] !== 0 &&
      (this.#biased.has(id) || this.#tokens.canSay(id))
    )
  }
}
