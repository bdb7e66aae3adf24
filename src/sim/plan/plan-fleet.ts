/**
 * Searches for the cheapest fleet that meets a goal, assuming that more workers are never worse.
 *
 * Aggregated: the smallest number, by doubling and halving. Prefill and decode: first the smallest number of each
 * with ample workers of the other kind, as bounds; then for each number of prefill workers the smallest number of
 * decode workers that is cheaper than the best so far. It owns the order and the limits of the trials. The caller
 * runs them, and may start likely next trials early, which affects neither order nor results.
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
  /** Most workers of each kind. */
  readonly workersMax: number
  /** Only fleets that cost less are searched for. Default: no limit. */
  readonly below?: number
  readonly meets: (size: FleetSize) => Promise<boolean>
  /** Number of likely next trials that are reported to `next`, the most likely first. Default 0. */
  readonly lookAhead?: number
  /** The possible trials after the one that starts now; replaces the earlier report. */
  readonly next?: (sizes: readonly FleetSize[]) => void
}

export interface FleetPlan {
  /** Null: no fleet within the limits meets the goal. */
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
    const { costs } = this.#options
    const most = this.#affordable(0, costs.aggregated)
    await this.#least(1, most, (aggregated) => ({ aggregated, prefill: 0, decode: 0 }))
  }

  async disaggregated(): Promise<void> {
    const { workersMax, costs } = this.#options
    if (costs.prefill + costs.decode >= this.#below) return
    const size = (prefill: number, decode: number): FleetSize => ({
      aggregated: 0,
      prefill,
      decode,
    })
    const prefillLeast = await this.#least(1, workersMax, (prefill) => size(prefill, workersMax))
    if (prefillLeast === null) return
    const decodeLeast = await this.#least(1, workersMax, (decode) => size(workersMax, decode))
    if (decodeLeast === null) return
    let decodeMost = workersMax
    for (let prefill = prefillLeast; prefill <= workersMax; prefill++) {
      const affordable = this.#affordable(prefill * costs.prefill, costs.decode)
      if (affordable < decodeLeast) return
      const most = Math.min(decodeMost, affordable)
      const decode = await this.#least(decodeLeast, most, (count) => size(prefill, count))
      if (decode === decodeLeast) return
      // More prefill workers never need more decode workers.
      if (decode !== null) decodeMost = decode
    }
  }

  get #below(): number {
    return this.best?.cost ?? this.#options.below ?? Infinity
  }

  /** The largest number of workers of this cost that, added to the spent cost, is cheaper than the best so far. */
  #affordable(spent: number, cost: number): number {
    const { workersMax } = this.#options
    const left = this.#below - spent
    const most = cost === 0 ? (left > 0 ? workersMax : 0) : Math.ceil(left / cost) - 1
    return Math.min(workersMax, most)
  }

  /**
   * The smallest number from `low` to `high` whose fleet passes, given that all larger ones pass too; null: none.
   */
  async #least(
    low: number,
    high: number,
    sizeOf: (count: number) => FleetSize,
  ): Promise<number | null> {
    const { lookAhead = 0, next } = this.#options
    let look: Look | null = low > high ? null : { at: low, failed: low - 1, passed: null, step: 1 }
    let passed: number | null = null
    while (look !== null) {
      const { at }: Look = look
      const trial = this.#meets(sizeOf(at))
      const ahead = looksAhead(look, high, lookAhead).map(sizeOf)
      next?.(ahead.filter((size) => !this.#known.has(keyOf(size))))
      const isEnough = await trial
      if (isEnough) passed = at
      look = lookAfter(look, isEnough, high)
    }
    return passed
  }

  async #meets(size: FleetSize): Promise<boolean> {
    const key = keyOf(size)
    const known = this.#known.get(key)
    if (known !== undefined) return known.meets
    const { costs } = this.#options
    const cost =
      size.aggregated * costs.aggregated + size.prefill * costs.prefill + size.decode * costs.decode
    const trial = { size, cost, meets: await this.#options.meets(size) }
    this.#known.set(key, trial)
    this.trials.push(trial)
    if (trial.meets && cost < this.#below) this.best = trial
    return trial.meets
  }
}

/** A trial: all numbers up to `failed` are too small, `passed` is sufficient. */
interface Look {
  readonly at: number
  readonly failed: number
  readonly passed: number | null
  /** The distance to the next trial while nothing has passed. */
  readonly step: number
}

/** Doubles until a number passes, then halves; null: the answer is `passed`, or none. */
function lookAfter({ at, step, ...known }: Look, isEnough: boolean, high: number): Look | null {
  const failed = isEnough ? known.failed : at
  const passed = isEnough ? at : known.passed
  if (passed === null) {
    if (at === high) return null
    return { at: Math.min(high, at + 2 * step), failed, passed, step: 2 * step }
  }
  if (passed - failed <= 1) return null
  return { at: Math.floor((passed + failed) / 2), failed, passed, step }
}

/** The possible trials after this one, the nearest first. */
function looksAhead(look: Look, high: number, count: number): number[] {
  const ahead = new Set<number>()
  let level: readonly Look[] = [look]
  while (level.length > 0 && ahead.size < count) {
    level = level.flatMap((from) =>
      [true, false].flatMap((isEnough) => lookAfter(from, isEnough, high) ?? []),
    )
    for (const { at } of level) if (ahead.size < count) ahead.add(at)
  }
  return [...ahead]
}

function keyOf({ aggregated, prefill, decode }: FleetSize): string {
  return `${aggregated} ${prefill} ${decode}`
}
