/**
 * Chooses the tokens of one request.
 *
 * The draw of output token i depends only on (seed, i), and penalties on the tokens so far, so a request that is
 * resumed elsewhere continues exactly as here. Frequency and presence penalties count output tokens only; the
 * repetition penalty counts the prompt as well. Order: bias and penalties, grammar, top-k, top-p, min-p,
 * temperature, draw.
 */
import { BatonError } from '../../base/index.ts'
import { drawSeed } from '../../engine/index.ts'
import type { Candidates } from '../native/candidates.ts'
import type { LlamaApi } from '../native/llama-api.ts'
import type { Pointer } from '../native/llama-structs.ts'
import { bestToken } from '../native/logits.ts'
import type { RunRequest } from './thread-messages.ts'

interface ChooserOptions {
  readonly api: LlamaApi
  readonly vocab: Pointer
  readonly vocabSize: number
  readonly candidates: Candidates
  /** End-of-text tokens of the model. */
  readonly endTokens: ReadonlySet<number>
  readonly contextLength: number
}

export class TokenChooser {
  readonly #options: ChooserOptions
  readonly #request: RunRequest
  readonly #isGreedy: boolean
  readonly #biases = new Map<number, number>()
  readonly #outputCounts = new Map<number, number>()
  readonly #ends: readonly number[]
  /** Pairs of a token and its original logit. */
  readonly #changed: number[] = []
  readonly #repetition: Pointer
  readonly #grammar: Pointer
  /** Top-k, top-p, min-p and temperature; null: greedy. */
  readonly #cuts: Pointer

  /** Throws `request.invalid_argument` when the grammar is invalid or forbids the output so far. */
  constructor(options: ChooserOptions, request: RunRequest) {
    this.#options = options
    this.#request = request
    const { sampling, tokenIds, resumedTokens } = request
    this.#isGreedy = (sampling.temperature ?? 1) <= 0
    for (const [token, bias] of Object.entries(sampling.logitBias ?? {})) {
      this.#biases.set(Number(token), bias)
    }
    this.#ends = [...new Set([...options.endTokens, ...request.eosTokenIds])]
    this.#grammar = this.#createGrammar()
    this.#repetition = this.#createRepetition()
    this.#cuts = this.#createCuts()
    try {
      if (this.#repetition !== null) {
        for (const token of tokenIds) options.api.acceptToken(this.#repetition, token)
      }
      for (const token of tokenIds.subarray(tokenIds.length - resumedTokens)) this.#resume(token)
    } catch (error) {
      this.dispose()
      throw error
    }
  }

  /** −1: there are no logits, or none is allowed. `outputIndex` is the index of the token to choose. */
  choose(logits: Float32Array, outputIndex: number): number {
    const token = this.#pick(logits, outputIndex)
    if (token < 0) return token
    if (this.#repetition !== null) this.#options.api.acceptToken(this.#repetition, token)
    if (this.#grammar !== null) this.#options.api.acceptToken(this.#grammar, token)
    this.#count(token)
    return token
  }

  dispose(): void {
    for (const sampler of [this.#grammar, this.#repetition, this.#cuts]) {
      if (sampler !== null) this.#options.api.freeSampler(sampler)
    }
  }

  /** Biases are written into the row and undone, so that the model's own logits can be read afterwards. */
  #pick(logits: Float32Array, outputIndex: number): number {
    const { candidates } = this.#options
    this.#applyBiases(logits, outputIndex)
    try {
      if (this.#isGreedy && this.#repetition === null) {
        const best = bestToken(logits)
        if (this.#grammar === null || best < 0) return best
        // Checking a single token is much cheaper than checking all.
        if (candidates.isAllowed(this.#grammar, best)) return best
      }
      candidates.fill(logits)
    } finally {
      this.#takeBack(logits)
    }
    if (this.#repetition !== null) candidates.apply(this.#repetition)
    if (this.#grammar !== null) candidates.apply(this.#grammar)
    return this.#isGreedy ? candidates.best() : this.#draw(outputIndex)
  }

  #draw(outputIndex: number): number {
    const { api, candidates } = this.#options
    // Without candidates llama.cpp would divide by zero.
    if (this.#grammar !== null && candidates.best() < 0) return -1
    if (this.#cuts !== null) candidates.apply(this.#cuts)
    const draw = api.drawSampler(drawSeed(this.#request.seed, outputIndex))
    candidates.apply(draw)
    api.freeSampler(draw)
    return candidates.drawn()
  }

  #applyBiases(logits: Float32Array, outputIndex: number): void {
    const { sampling, stop } = this.#request
    const { presencePenalty = 0, frequencyPenalty = 0 } = sampling
    for (const [token, bias] of this.#biases) this.#add(logits, token, bias)
    if (presencePenalty !== 0 || frequencyPenalty !== 0) {
      for (const [token, count] of this.#outputCounts)
        this.#add(logits, token, -(presencePenalty + frequencyPenalty * count))
    }
    const isEarly = outputIndex < (stop.minTokens ?? 0)
    if (isEarly || stop.ignoreEos === true) {
      for (const token of this.#ends) this.#add(logits, token, -Infinity)
    }
    if (isEarly) for (const token of stop.stopTokenIds ?? []) this.#add(logits, token, -Infinity)
  }

  #add(logits: Float32Array, token: number, bias: number): void {
    const logit = logits[token]
    if (logit === undefined) return
    this.#changed.push(token, logit)
    logits[token] = logit + bias
  }

  #takeBack(logits: Float32Array): void {
    const changed = this.#changed
    for (let i = changed.length - 2; i >= 0; i -= 2) logits[changed[i] ?? 0] = changed[i + 1] ?? 0
    changed.length = 0
  }

  #createGrammar(): Pointer {
    const { gbnf, gbnfField } = this.#request
    if (gbnf === undefined) return null
    const grammar = this.#options.api.grammarSampler(this.#options.vocab, gbnf, 'root')
    if (grammar !== null) return grammar
    const data = gbnfField === undefined ? {} : { param: gbnfField }
    throw new BatonError('request.invalid_argument', 'the grammar is invalid', { data })
  }

  #createRepetition(): Pointer {
    const { repetitionPenalty = 1 } = this.#request.sampling
    if (repetitionPenalty === 1) return null
    const { api, vocabSize, contextLength } = this.#options
    return api.repetitionSampler(vocabSize, contextLength, repetitionPenalty, 0, 0)
  }

  #createCuts(): Pointer {
    if (this.#isGreedy) return null
    const { api } = this.#options
    const { temperature = 1, topP, topK, minP } = this.#request.sampling
    const chain = api.createChain({ no_perf: true })
    if (topK !== undefined && topK > 0) api.addToChain(chain, api.topKSampler(topK))
    if (topP !== undefined && topP < 1) api.addToChain(chain, api.topPSampler(topP, 1))
    if (minP !== undefined && minP > 0) api.addToChain(chain, api.minPSampler(minP, 1))
    if (temperature !== 1) api.addToChain(chain, api.temperatureSampler(temperature))
    return chain
  }

  /** Accepts a token that was chosen elsewhere. Accepting one that the grammar forbids would crash the process. */
  #resume(token: number): void {
    this.#count(token)
    if (this.#grammar === null) return
    if (!this.#options.candidates.isAllowed(this.#grammar, token)) {
      throw new BatonError(
        'request.invalid_argument',
        'the output so far does not match the grammar',
      )
    }
    this.#options.api.acceptToken(this.#grammar, token)
  }

  #count(token: number): void {
    this.#outputCounts.set(token, (this.#outputCounts.get(token) ?? 0) + 1)
  }
}
