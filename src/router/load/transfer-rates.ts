/**
 * Learns how long it takes until a prompt computed on one worker continues on another, as a function of the tokens to
 * transfer. Measured from the first tokens of decode legs, so it holds for any KV transfer mechanism of the engines.
 *
 * The linear function is learned from all pairs of workers; each pair has only a factor (other hosts, other
 * networks), 1 until it is measured to differ by more than chance. Old measurements are forgotten: when transfers are believed to be slow, requests
 * avoid them, and otherwise nothing would show that they are fast again.
 */
import type { WorkerId } from '../../base/index.ts'
import { FadingFit } from '../rates/fading-fit.ts'

const FADE = 0.98
const FLOOR_MS = 1
const KILO = 1000
/**
 * A single transfer counts at most as this many times longer, or shorter, than predicted: a broken connection is no
 * rate.
 */
const SURPRISE_MAX = 10
/** Decay factor of older observations of a pair per new one, and the number of observations that the prior counts for. */
const PAIR_FADE = 0.9
const PAIR_SHRINK = 0.5
/** Assumed spread of single transfers of one pair (in natural logarithms): only larger differences count. */
const NOISE_LOG = 0.2
/** Number of pairs with a factor of their own; beyond that the least recently used are dropped. */
export const PAIRS_MAX = 4096
/** Without a transfer for this long, predictions are half learned and half assumed. */
export const HALF_LIFE_MS = 30_000

/** A pair's factor is cached for this long. */
const KEPT_MS = HALF_LIFE_MS / 200

interface WorkerPair {
  readonly from: WorkerId
  readonly to: WorkerId
}

interface SeenTransfer {
  readonly tokens: number
  /** From dispatch to arrival. */
  readonly elapsedMs: number
  /** Its standard deviation: the first token shows the arrival only to within an engine step. */
  readonly spreadMs: number
}

/** Transfers from one worker: a linear function of the tokens, times a factor per receiving worker. */
export interface TransferLine {
  readonly startMs: number
  readonly msPerToken: number
  readonly factorTo: (worker: WorkerId) => number
}

interface PairRate {
  /** Sum and weight of the logarithms of measured / predicted times; older ones count less. */
  readonly sum: number
  readonly weight: number
  readonly lastMs: number
  /** The cached factor and its time (NaN: not computed yet), because a decision asks for a thousand of them. */
  factor: number
  factorAtMs: number
}

export class TransferRates {
  readonly #pool = new FadingFit([0, 0], FADE, FLOOR_MS)
  /** Prefill worker → decode worker → rate; both maps in order of use. */
  readonly #pairs = new Map<WorkerId, Map<WorkerId, PairRate>>()
  /** Cached factor of the best pair of a worker, for `KEPT_MS`. */
  readonly #best = new WeakMap<object, { readonly factor: number; readonly atMs: number }>()
  #pairCount = 0
  /** For a prefill pool: transfers from its workers to the decode pool. */
  onward: (nowMs: number) => TransferLine | null = () => null
  #lastMs = 0

  /** Predicted transfer time of this many tokens; `assumedMs` is used while nothing has been measured. */
  predictMs(pair: WorkerPair, tokens: number, assumedMs: number, nowMs: number): number {
    if (this.#pool.count === 0) return assumedMs
    const known = remembered(this.#lastMs, nowMs)
    const pooledMs = assumedMs + known * (this.#pool.predict(featuresOf(tokens)) - assumedMs)
    return pooledMs * this.#factorOf(pair, nowMs)
  }

  /** Records a transfer. The larger its uncertainty relative to the predicted time, the less it counts. */
  arrived(pair: WorkerPair, { tokens, elapsedMs, spreadMs }: SeenTransfer, nowMs: number): void {
    const features = featuresOf(tokens)
    const tookMs = Math.max(elapsedMs, FLOOR_MS)
    // The first transfer sets the line.
    const isFirst = this.#pool.count === 0
    const lineMs = isFirst ? tookMs : Math.max(this.#pool.predict(features), FLOOR_MS)
    const pairMs = lineMs * this.#factorOf(pair, nowMs)
    const ms = Math.min(Math.max(tookMs, pairMs / SURPRISE_MAX), SURPRISE_MAX * pairMs)
    const share = 1 / (1 + (spreadMs / (NOISE_LOG * lineMs)) ** 2)
    this.#learnPair(pair, ms / lineMs, share, nowMs)
    this.#pool.add(features, Math.min(ms, SURPRISE_MAX * lineMs), share)
    this.#lastMs = nowMs
  }

  /** Transfers from one worker to any other, as measured; null if none has been measured. */
  from(worker: WorkerId, nowMs: number): TransferLine | null {
    if (this.#pool.count === 0) return null
    const [startMs = 0, msPerKilo = 0] = this.#pool.coefficients
    const rates = this.#pairs.get(worker)
    return {
      startMs,
      msPerToken: msPerKilo / KILO,
      factorTo: (to) => factorOf(rates?.get(to), nowMs),
    }
  }

  /**
   * Transfers from each worker to its best receiver among `places` workers that have capacity or no measurements, so
   * that the cost of a remote worker is known before its prompt is computed. Null if nothing has been measured.
   */
  best(places: number, hasRoom: (worker: WorkerId) => boolean, nowMs: number): TransferLine | null {
    if (this.#pool.count === 0) return null
    const [startMs = 0, msPerKilo = 0] = this.#pool.coefficients
    return {
      startMs,
      msPerToken: msPerKilo / KILO,
      factorTo: (from) => this.#bestOf(from, places, hasRoom, nowMs),
    }
  }

  #bestOf(
    from: WorkerId,
    places: number,
    hasRoom: (worker: WorkerId) => boolean,
    nowMs: number,
  ): number {
    const rates = this.#pairs.get(from)
    if (rates === undefined) return 1
    const known = this.#best.get(rates)
    if (known !== undefined && Math.abs(nowMs - known.atMs) < KEPT_MS) return known.factor
    let factor = rates.size < places ? 1 : Infinity
    for (const [to, rate] of rates) {
      if (hasRoom(to)) factor = Math.min(factor, factorOf(rate, nowMs))
    }
    // No receiver has capacity now; that will have changed when the prompt is computed.
    const kept = { factor: factor === Infinity ? 1 : factor, atMs: nowMs }
    this.#best.set(rates, kept)
    return kept.factor
  }

  #factorOf({ from, to }: WorkerPair, nowMs: number): number {
    return factorOf(this.#pairs.get(from)?.get(to), nowMs)
  }

  #learnPair({ from, to }: WorkerPair, ratio: number, share: number, nowMs: number): void {
    const rates = this.#pairs.get(from) ?? new Map<WorkerId, PairRate>()
    const { sum = 0, weight = 0 } = rates.get(to) ?? {}
    this.#pairs.delete(from)
    this.#pairs.set(from, rates)
    if (!rates.delete(to)) this.#pairCount++
    rates.set(to, {
      sum: PAIR_FADE * sum + share * Math.log(ratio),
      weight: PAIR_FADE * weight + share,
      lastMs: nowMs,
      factor: 1,
      factorAtMs: Number.NaN,
    })
    if (this.#pairCount > PAIRS_MAX) this.#forgetOldest()
  }

  #forgetOldest(): void {
    for (const [from, rates] of this.#pairs) {
      for (const to of rates.keys()) {
        rates.delete(to)
        break
      }
      if (rates.size === 0) this.#pairs.delete(from)
      this.#pairCount--
      return
    }
  }
}

function factorOf(rate: PairRate | undefined, nowMs: number): number {
  if (rate === undefined) return 1
  if (!(Math.abs(nowMs - rate.factorAtMs) < KEPT_MS)) {
    const mean = rate.sum / (rate.weight + PAIR_SHRINK)
    const chance = NOISE_LOG / Math.sqrt(rate.weight + 1)
    const shown = Math.sign(mean) * Math.max(Math.abs(mean) - chance, 0)
    rate.factor = Math.exp(shown * remembered(rate.lastMs, nowMs))
    rate.factorAtMs = nowMs
  }
  return rate.factor
}

const featuresOf = (tokens: number): readonly number[] => [1, tokens / KILO]
const remembered = (lastMs: number, nowMs: number): number =>
  0.5 ** (Math.max(nowMs - lastMs, 0) / HALF_LIFE_MS)
