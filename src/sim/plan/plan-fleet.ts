/**
 * The cheapest fleet that meets a goal, found by search: more workers are taken to be never worse.
 *
 * Aggregated: the least number, by doubling and halving. Prefill and decode: the least of each when the other is ample
 * bound the search; then for each number of prefill workers the least number of decode workers that is cheaper than the
 * best so far. Owns the order of the trials and their bounds; what a trial is, the caller says.
 */
export interface FleetSize {
  readonly aggregated: number
  readonly prefill: number
  readonly decode: number
}

export interface FleetTrial {
  readonly size: FleetSize
  readonly cost: number
  readonly meets: boolean
}

export interface PlanOptions {
  /** Cost of one worker of each kind, in any unit. */
  readonly costs: FleetSize
  readonly kinds: readonly ('aggregated' | 'disaggregated')[]
  /** No more workers of a kind than this. */
  readonly workersMax: number
  readonly meets: (size: FleetSize) => Promise<boolean>
}

export interface FleetPlan {
  /** Null: no fleet within the bounds meets the goal. */
  readonly best: FleetTrial | null
  /** In the order in which they were tried. */
  readonly trials: readonly FleetTrial[]
}

export async function planFleet(options: PlanOptions): Promise<FleetPlan> {
  const search = new FleetSearch(options)
  if (options.kinds.includes('aggregated')) await search.aggregated()
  if (options.kinds.includes('disaggregated')) await search.disaggregated()
  return { best: search.best, trials: search.trials }
}

class FleetSearch {
  readonly trials: FleetTrial[] = []
  best: FleetTrial | null = null
  readonly #options: PlanOptions
  readonly #known = new Map<string, FleetTrial>()

  constructor(options: PlanOptions) {
    this.#options = options
  }

  async aggregated(): Promise<void> {
    const { workersMax } = this.#options
    await least(1, workersMax, (aggregated) => this.#meets({ aggregated, prefill: 0, decode: 0 }))
  }

  async disaggregated(): Promise<void> {
    const { workersMax, costs } = this.#options
    if (this.best !== null && costs.prefill + costs.decode >= this.best.cost) return
    const meets = (prefill: number, decode: number): Promise<boolean> =>
      this.#meets({ aggregated: 0, prefill, decode })
    const prefillLeast = await least(1, workersMax, (prefill) => meets(prefill, workersMax))
    if (prefillLeast === null) return
    const decodeLeast = await least(1, workersMax, (decode) => meets(workersMax, decode))
    if (decodeLeast === null) return
    let decodeMost = workersMax
    for (let prefill = prefillLeast; prefill <= workersMax; prefill++) {
      const affordable = this.#affordableDecode(prefill)
      if (affordable < decodeLeast) return
      const most = Math.min(decodeMost, affordable)
      const decode = await least(decodeLeast, most, (count) => meets(prefill, count))
      if (decode === decodeLeast) return
      // With more prefill workers no more decode workers are needed.
      if (decode !== null) decodeMost = decode
    }
  }

  /** Decode workers that keep a fleet with so many prefill workers cheaper than the best so far. */
  #affordableDecode(prefill: number): number {
    const { costs, workersMax } = this.#options
    if (this.best === null) return workersMax
    const left = this.best.cost - prefill * costs.prefill
    const most = costs.decode === 0 ? workersMax : Math.ceil(left / costs.decode) - 1
    return Math.min(workersMax, most)
  }

  async #meets(size: FleetSize): Promise<boolean> {
    const key = `${size.aggregated} ${size.prefill} ${size.decode}`
    const known = this.#known.get(key)
    if (known !== undefined) return known.meets
    const { costs } = this.#options
    const cost =
      size.aggregated * costs.aggregated + size.prefill * costs.prefill + size.decode * costs.decode
    const trial = { size, cost, meets: await this.#options.meets(size) }
    this.#known.set(key, trial)
    this.trials.push(trial)
    if (trial.meets && (this.best === null || cost < this.best.cost)) this.best = trial
    return trial.meets
  }
}

/** The least number from `low` to `high` that passes, where all above one that passes do; null: none. */
async function least(
  low: number,
  high: number,
  passes: (count: number) => Promise<boolean>,
): Promise<number | null> {
  if (low > high) return null
  let failed = low - 1
  let passed: number | null = null
  for (let step = 1, at = low; passed === null; step *= 2, at = Math.min(high, at + step)) {
    if (await passes(at)) passed = at
    else if (at === high) return null
    else failed = at
  }
  while (passed - failed > 1) {
    const middle = Math.floor((passed + failed) / 2)
    if (await passes(middle)) passed = middle
    else failed = middle
  }
  return passed
}
