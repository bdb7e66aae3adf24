/**
 * How long it takes until a prompt that was computed at one worker goes on at another, against the tokens that have to be
 * moved: learned from first tokens of decode legs, whatever the engines' own way of moving KV is.
 *
 * The line is that of all pairs of workers; how many times as long a pair takes is learned from the pair alone (other hosts,
 * other networks), and a pair that nothing is known of is like the others. What is not measured any more is forgotten: when
 * transfers are believed to be slow, requests avoid them, and nothing would say that they have become fast again.
 */
import type { WorkerId } from '../../base/index.ts'
import { FadingFit } from './fading-fit.ts'

const FADE = 0.98
const FLOOR_MS = 1
const KILO = 1000
/** One transfer counts as at most so many times what was expected, or as little: a broken connection is no rate. */
const SURPRISE_MAX = 10
/** Of a pair's factor: what an observation counts after the next one, and how many weigh as much as the other pairs. */
const PAIR_FADE = 0.9
const PAIR_SHRINK = 0.5
/** Pairs that are told apart; of more, those are forgotten that were used longest ago. */
export const PAIRS_MAX = 4096
/** Without a transfer for so long, half of what is known is what was assumed at first. */
export const HALF_LIFE_MS = 30_000

/** A pair's factor is worked out anew after so long. */
const KEPT_MS = HALF_LIFE_MS / 200

export interface WorkerPair {
  readonly from: WorkerId
  readonly to: WorkerId
}

/** From one worker: a line against the tokens that are moved, times a factor for each worker that it goes to. */
export interface TransferLine {
  readonly startMs: number
  readonly msPerToken: number
  readonly factorTo: (worker: WorkerId) => number
}

interface PairRate {
  /** Of the logarithms of its ratios to the line, and how many they are; older ones count less. */
  readonly sum: number
  readonly weight: number
  readonly lastMs: number
  /** What follows from them, as of that moment (NaN: not asked yet): a decision asks for a thousand of them. */
  factor: number
  factorAtMs: number
}

export class TransferRates {
  readonly #pool = new FadingFit([0, 0], FADE, FLOOR_MS)
  /** Of each prefill worker, the decode workers; both in order of use. */
  readonly #pairs = new Map<WorkerId, Map<WorkerId, PairRate>>()
  /** What follows from the pairs of a worker, for as long as a factor is kept. */
  readonly #best = new WeakMap<object, { readonly factor: number; readonly atMs: number }>()
  #pairCount = 0
  /** Of a pool whose requests go on in another one: what lies behind its workers. */
  onward: (nowMs: number) => TransferLine | null = () => null
  #lastMs = 0

  /** Of so many tokens; `assumedMs`: what is said when none has been measured. */
  predictMs(pair: WorkerPair, tokens: number, assumedMs: number, nowMs: number): number {
    if (this.#pool.count === 0) return assumedMs
    const known = remembered(this.#lastMs, nowMs)
    const pooledMs = assumedMs + known * (this.#pool.predict(featuresOf(tokens)) - assumedMs)
    return pooledMs * this.#factorOf(pair, nowMs)
  }

  /** So many tokens have been moved in so long. */
  arrived(pair: WorkerPair, tokens: number, elapsedMs: number, nowMs: number): void {
    const features = featuresOf(tokens)
    const tookMs = Math.max(elapsedMs, FLOOR_MS)
    // The first one sets the line.
    const isFirst = this.#pool.count === 0
    const lineMs = isFirst ? tookMs : Math.max(this.#pool.predict(features), FLOOR_MS)
    const pairMs = lineMs * this.#factorOf(pair, nowMs)
    const ms = Math.min(Math.max(tookMs, pairMs / SURPRISE_MAX), SURPRISE_MAX * pairMs)
    this.#learnPair(pair, ms / lineMs, nowMs)
    this.#pool.add(features, Math.min(ms, SURPRISE_MAX * lineMs))
    this.#lastMs = nowMs
  }

  /** From one worker to any other, as measured; null: no transfer has been measured at all. */
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
   * From any worker to where it would go best, of `places` workers: those that have room, or that nothing is known of. So a
   * worker that is far from all others costs more before its prompt is computed, not only after. Null: nothing was measured.
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
    // Nobody has room now: that will have changed when the prompt is computed.
    const kept = { factor: factor === Infinity ? 1 : factor, atMs: nowMs }
    this.#best.set(rates, kept)
    return kept.factor
  }

  #factorOf({ from, to }: WorkerPair, nowMs: number): number {
    return factorOf(this.#pairs.get(from)?.get(to), nowMs)
  }

  #learnPair({ from, to }: WorkerPair, ratio: number, nowMs: number): void {
    const rates = this.#pairs.get(from) ?? new Map<WorkerId, PairRate>()
    const { sum = 0, weight = 0 } = rates.get(to) ?? {}
    this.#pairs.delete(from)
    this.#pairs.set(from, rates)
    if (!rates.delete(to)) this.#pairCount++
    rates.set(to, {
      sum: PAIR_FADE * sum + Math.log(ratio),
      weight: PAIR_FADE * weight + 1,
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
    rate.factor = Math.exp(mean * remembered(rate.lastMs, nowMs))
    rate.factorAtMs = nowMs
  }
  return rate.factor
}

const featuresOf = (tokens: number): readonly number[] => [1, tokens / KILO]
const remembered = (lastMs: number, nowMs: number): number =>
  0.5 ** (Math.max(nowMs - lastMs, 0) / HALF_LIFE_MS)
