/**
 * How the tokens of one request are chosen: llama.cpp's sampler, told anew for every token what it must not remember.
 *
 * The draw of output token i depends on (seed, i) alone, and penalties on the tokens so far, so a request that is
 * resumed elsewhere goes on exactly as here. Frequency and presence penalties count output tokens only; the
 * repetition penalty counts the prompt as well.
 */
import { drawSeed } from '../../../engine/index.ts'
import type { GenerateRequest, TokenLogprobs } from '../../../request/index.ts'
import type {
  NativeContext,
  NativeGrammarState,
  NativeSampler,
  SamplerSettings,
} from './bindings.ts'

interface ChooserOptions {
  readonly request: GenerateRequest
  readonly seed: number
  /** Ids that end an output by the model's own account. */
  readonly endTokens: ReadonlySet<number>
  readonly contextLength: number
  readonly createSampler: () => NativeSampler
  readonly grammarState: NativeGrammarState | undefined
}

export interface Choice {
  readonly token: number
  readonly logprobs: TokenLogprobs | undefined
}

export class TokenChooser {
  readonly #options: ChooserOptions
  readonly #isGreedy: boolean
  readonly #outputCounts = new Map<number, number>()
  #sampler: NativeSampler | undefined
  #scorer: NativeSampler | undefined

  constructor(options: ChooserOptions) {
    this.#options = options
    this.#isGreedy = (options.request.sampling.temperature ?? 1) <= 0
    const { tokenIds, resumedTokens = 0 } = options.request
    for (const token of tokenIds.subarray(tokenIds.length - resumedTokens)) this.#count(token)
  }

  /** `tokens` are prompt and output so far; `outputIndex` is the index of the token to choose. */
  async choose(
    context: NativeContext,
    logitIndex: number,
    tokens: Uint32Array,
    outputIndex: number,
  ): Promise<Choice> {
    this.#sampler ??= this.#options.createSampler()
    this.#sampler.applyConfig(this.#settings(tokens, outputIndex))
    const token = await context.sampleToken(logitIndex, this.#sampler)
    this.#count(token)
    const top = this.#options.request.output.logprobs
    if (top === undefined || token < 0) return { token, logprobs: undefined }
    return { token, logprobs: await this.#score(context, logitIndex, token, top) }
  }

  dispose(): void {
    this.#sampler?.dispose()
    this.#scorer?.dispose()
    this.#sampler = undefined
    this.#scorer = undefined
  }

  #settings(tokens: Uint32Array, outputIndex: number): SamplerSettings {
    const { request, seed, contextLength, grammarState } = this.#options
    const { temperature = 1, topP, topK, minP, repetitionPenalty = 1 } = request.sampling
    const settings: SamplerSettings = { temperature: this.#isGreedy ? 0 : temperature }
    if (!this.#isGreedy) {
      settings.seed = drawSeed(seed, outputIndex)
      if (topP !== undefined && topP < 1) settings.topP = topP
      if (topK !== undefined && topK > 0) settings.topK = topK
      if (minP !== undefined && minP > 0) settings.minP = minP
    }
    if (repetitionPenalty !== 1) {
      settings.repeatPenalty = repetitionPenalty
      settings.repeatPenaltyTokens = tokens
      settings.repeatPenaltyMaxTokens = contextLength
    }
    if (grammarState !== undefined) settings.grammarEvaluationState = grammarState
    const biases = this.#biases(outputIndex)
    if (biases.size > 0) {
      settings.tokenBiasKeys = Uint32Array.from(biases.keys())
      settings.tokenBiasValues = Float32Array.from(biases.values())
    }
    return settings
  }

  #biases(outputIndex: number): Map<number, number> {
    const { request, endTokens } = this.#options
    const { logitBias = {}, presencePenalty = 0, frequencyPenalty = 0 } = request.sampling
    const biases = new Map<number, number>()
    for (const [token, bias] of Object.entries(logitBias)) biases.set(Number(token), bias)
    if (presencePenalty !== 0 || frequencyPenalty !== 0) {
      for (const [token, count] of this.#outputCounts) {
        const penalty = presencePenalty + frequencyPenalty * count
        biases.set(token, (biases.get(token) ?? 0) - penalty)
      }
    }
    const isEarly = outputIndex < (request.stop.minTokens ?? 0)
    if (isEarly || request.stop.ignoreEos === true) {
      for (const token of endTokens) biases.set(token, -Infinity)
      for (const token of request.eosTokenIds) biases.set(token, -Infinity)
    }
    if (isEarly) {
      for (const token of request.stop.stopTokenIds ?? []) biases.set(token, -Infinity)
    }
    return biases
  }

  /** Log-probabilities of the model itself, before temperature, penalties and bias. */
  async #score(
    context: NativeContext,
    logitIndex: number,
    token: number,
    top: number,
  ): Promise<TokenLogprobs> {
    if (this.#scorer === undefined) {
      this.#scorer = this.#options.createSampler()
      this.#scorer.applyConfig({ temperature: 0 })
    }
    const filter = [[token], false, false, false, Math.max(1, top)] as const
    const result = await context.sampleToken(logitIndex, this.#scorer, false, false, filter, true)
    const [, , , pairs, totalWeight] = result
    const logits = new Map<number, number>()
    for (let i = 0; i + 1 < pairs.length; i += 2) logits.set(pairs[i] ?? 0, pairs[i + 1] ?? 0)
    const best = Math.max(...logits.values())
    const logprobOf = (logit: number): number => logit - best - Math.log(totalWeight)
    const ranked = [...logits].map(([tokenId, logit]) => ({ tokenId, logprob: logprobOf(logit) }))
    ranked.sort((a, b) => b.logprob - a.logprob)
    const chosen = ranked.find((entry) => entry.tokenId === token)
    return {
      tokenId: token,
      logprob: chosen?.logprob ?? -Infinity,
      top: ranked.slice(0, top),
    }
  }

  #count(token: number): void {
    this.#outputCounts.set(token, (this.#outputCounts.get(token) ?? 0) + 1)
  }
}
