/**
 * How fast each rank is, learned from what it does: milliseconds until a first token against the prompt tokens before it,
 * milliseconds per step against the requests that share it. Each is a line fitted online; older observations fade.
 *
 * A rank that nothing is known of has the rates of its pool, a pool that nothing is known of those of `GUESS`: a rank that
 * has just joined is tried like any other. What is predicted is compared with what comes, and the error is kept.
 */
const FADE = 0.97
/** So many observations until a rank's own line counts alone. */
const OWN_AFTER = 8
const GUESS = { perToken: 0.1, prefill: 5, perRequest: 0.1, step: 10, outputTokens: 128 }
const MIN_CAPACITY = 16

/** Least squares with fading sums; neither slope nor intercept falls below 0. */
export class LineFit {
  count = 0
  #n = 0
  #x = 0
  #y = 0
  #xx = 0
  #xy = 0

  add(x: number, y: number): void {
    this.count++
    this.#n = FADE * this.#n + 1
    this.#x = FADE * this.#x + x
    this.#y = FADE * this.#y + y
    this.#xx = FADE * this.#xx + x * x
    this.#xy = FADE * this.#xy + x * y
  }

  /** Null: nothing is known. */
  line(): { readonly slope: number; readonly intercept: number } | null {
    if (this.count === 0) return null
    const spread = this.#n * this.#xx - this.#x * this.#x
    // All the same x says nothing of a slope: the line goes through the origin.
    const isFlat = spread <= 1e-9 * this.#n * Math.max(this.#xx, 1)
    const through = this.#xx === 0 ? 0 : this.#xy / this.#xx
    if (isFlat) return { slope: through, intercept: this.#xx === 0 ? this.#y / this.#n : 0 }
    const slope = (this.#n * this.#xy - this.#x * this.#y) / spread
    if (slope < 0) return { slope: 0, intercept: this.#y / this.#n }
    const intercept = (this.#y - slope * this.#x) / this.#n
    return intercept < 0 ? { slope: through, intercept: 0 } : { slope, intercept }
  }
}

export class RankRates {
  /** By slot: ms per prompt token, ms before the first of them, ms per step and per request in it. */
  perToken = new Float64Array(MIN_CAPACITY).fill(GUESS.perToken)
  prefill = new Float64Array(MIN_CAPACITY).fill(GUESS.prefill)
  perRequest = new Float64Array(MIN_CAPACITY).fill(GUESS.perRequest)
  step = new Float64Array(MIN_CAPACITY).fill(GUESS.step)
  readonly #prefillOf: (LineFit | undefined)[] = []
  readonly #stepOf: (LineFit | undefined)[] = []
  readonly #poolPrefill = new LineFit()
  readonly #poolStep = new LineFit()
  #outputTokens = GUESS.outputTokens
  #prompts = 0
  #promptTokens = 0
  #cachedTokens = 0
  #error: number | null = null

  /** Output of a request that does not say how much it expects. */
  get outputTokens(): number {
    return this.#outputTokens
  }

  /** Of prompt tokens, those that were cached where they were sent. */
  get reuseShare(): number {
    return this.#promptTokens === 0 ? 0 : this.#cachedTokens / this.#promptTokens
  }

  /**
   * Of a request of the usual length that came now and went where least is before it; `waitingTokens`: of all that wait.
   * Null: none has come yet.
   */
  usualTtftMs(
    slots: readonly number[],
    tokensAt: (slot: number) => number,
    waitingTokens: number,
  ): number | null {
    if (this.#prompts === 0 || slots.length === 0) return null
    const own = (this.#promptTokens - this.#cachedTokens) / this.#prompts
    const before = own + waitingTokens / slots.length
    return slots.reduce(
      (least, slot) => Math.min(least, this.ttftMs(slot, tokensAt(slot) + before)),
      Infinity,
    )
  }

  /** Mean relative error of predicted first tokens, newer ones weigh more; null: none has come. */
  get ttftError(): number | null {
    return this.#error
  }

  hasOwn(slot: number): boolean {
    return (this.#prefillOf[slot]?.count ?? 0) >= OWN_AFTER
  }

  /** A new rank has this slot. */
  join(slot: number): void {
    this.#reserve(slot)
    this.#prefillOf[slot] = undefined
    this.#stepOf[slot] = undefined
    this.#setPrefill(slot)
    this.#setStep(slot)
  }

  placed(promptTokens: number, cachedTokens: number): void {
    this.#prompts = 0.99 * this.#prompts + 1
    this.#promptTokens = 0.99 * this.#promptTokens + promptTokens
    this.#cachedTokens = 0.99 * this.#cachedTokens + Math.min(cachedTokens, promptTokens)
  }

  ttftMs(slot: number, tokensBefore: number): number {
    return (this.prefill[slot] as number) + (this.perToken[slot] as number) * tokensBefore
  }

  /** A first token came after so long, with so many prompt tokens before it, its own among them. */
  firstToken(slot: number, tokensBefore: number, elapsedMs: number): void {
    const error = Math.abs(this.ttftMs(slot, tokensBefore) - elapsedMs) / Math.max(elapsedMs, 1)
    this.#error = this.#error === null ? error : 0.95 * this.#error + 0.05 * error
    this.#poolPrefill.add(tokensBefore, elapsedMs)
    const own = (this.#prefillOf[slot] ??= new LineFit())
    own.add(tokensBefore, elapsedMs)
    this.#setPrefill(slot)
  }

  /** A request has ended: its steps took so long on average, with so many requests beside it. */
  ended(slot: number, requests: number, stepMs: number, outputTokens: number): void {
    this.#outputTokens = 0.95 * this.#outputTokens + 0.05 * outputTokens
    this.#poolStep.add(requests, stepMs)
    const own = (this.#stepOf[slot] ??= new LineFit())
    own.add(requests, stepMs)
    this.#setStep(slot)
  }

  #setPrefill(slot: number): void {
    const { slope, intercept } = known(this.#prefillOf[slot], this.#poolPrefill) ?? {
      slope: GUESS.perToken,
      intercept: GUESS.prefill,
    }
    this.perToken[slot] = slope
    this.prefill[slot] = intercept
  }

  #setStep(slot: number): void {
    const { slope, intercept } = known(this.#stepOf[slot], this.#poolStep) ?? {
      slope: GUESS.perRequest,
      intercept: GUESS.step,
    }
    this.perRequest[slot] = slope
    this.step[slot] = intercept
  }

  #reserve(slot: number): void {
    if (slot < this.perToken.length) return
    const size = Math.max(slot + 1, 2 * this.perToken.length)
    this.perToken = grown(this.perToken, size)
    this.prefill = grown(this.prefill, size)
    this.perRequest = grown(this.perRequest, size)
    this.step = grown(this.step, size)
  }
}

/** The rank's own line; the pool's until enough is known of the rank. */
function known(own: LineFit | undefined, pool: LineFit) {
  const line = own === undefined ? null : own.line()
  if (line !== null && own !== undefined && own.count >= OWN_AFTER) return line
  const common = pool.line()
  if (line === null || common === null || own === undefined) return common ?? line
  const share = own.count / OWN_AFTER
  return {
    slope: share * line.slope + (1 - share) * common.slope,
    intercept: share * line.intercept + (1 - share) * common.intercept,
  }
}

function grown(from: Float64Array<ArrayBuffer>, size: number): Float64Array<ArrayBuffer> {
  const to = new Float64Array(size)
  to.set(from)
  return to
}
