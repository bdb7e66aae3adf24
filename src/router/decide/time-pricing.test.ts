/**
 * Compares the fast pricing in milliseconds (one row per rank, terms omitted where they cannot matter) with a router that
 * computes every term of every rank: the choices must be identical.
 */
import { describe, expect, it } from 'vitest'
import { buildPool, select, stored } from '../../../test/router/pool-fixture.ts'
import { card } from '../../../test/router/scripted-plane.ts'
import { randomInt, seededRandom, workerIdOf } from '../../base/index.ts'
import type { Random } from '../../base/index.ts'
import type { RoutingHints } from '../../request/index.ts'
import type { Booking } from '../load/active-sequences.ts'

const STEPS = 1000
const RANKS_MAX = 24

type Pool = ReturnType<typeof buildPool>

/** The same fleet twice, driven by the same events; one prices every rank in full. */
class Twins {
  readonly #full: Pool
  readonly #fast: Pool
  readonly #random: Random
  #bookings: { readonly full: Booking; readonly fast: Booking }[] = []
  readonly #workersMax: number
  readonly #live: number[] = []
  #workers = 0
  #sequence = 0
  /** Decisions in milliseconds. */
  timed = 0

  constructor(seed: number) {
    const options = { cost: 'time', trackOutputBlocks: seed % 2 === 0 } as const
    this.#full = buildPool({ ...options, explainCandidates: 4 * RANKS_MAX })
    this.#fast = buildPool({ ...options, explainCandidates: 3 })
    this.#random = seededRandom(seed)
    // Only a few ranks have many measurements: the knowledge of all ranks decays at the same time.
    this.#workersMax = seed % 3 === 0 ? 2 : RANKS_MAX
  }

  #below(end: number): number {
    return randomInt(this.#random, end)
  }

  #both(act: (pool: Pool) => void): void {
    act(this.#full)
    act(this.#fast)
  }

  join(): void {
    const id = ++this.#workers
    this.#live.push(id)
    const engine = {
      kvCacheBlockSize: 16,
      ...(this.#below(2) === 0 ? { totalKvBlocks: 20 + this.#below(100) } : {}),
      ...(this.#below(2) === 0 ? { maxNumSeqs: 1 + this.#below(6) } : {}),
      ...(this.#below(4) === 0 ? { dataParallelSize: 2 } : {}),
      ...(this.#below(3) === 0
        ? {
            pace: {
              promptMs: 1 + this.#below(20),
              promptTokenMs: 0.01 * (1 + this.#below(30)),
              stepMs: 1 + this.#below(20),
              stepRequestMs: 0.1,
              stepContextTokenMs: 0.001,
            },
          }
        : {}),
    }
    this.#both(({ router }) => router.workerJoined(card(id, 'agg', { engine })))
  }

  #request(): { tokens: number[]; hints: RoutingHints } {
    const [group, length] = [this.#below(8), 16 * (1 + this.#below(40))]
    const tokens = Array.from({ length }, (_, i) => 10_000 * (i < 160 ? group : 100 + group) + i)
    const hints: RoutingHints = {
      ...(this.#below(3) === 0 ? { sessionId: `s${this.#below(10)}` } : {}),
      ...(this.#below(4) === 0 ? { expectedOutputTokens: this.#below(300) } : {}),
      // As for a decode leg: the prompt was computed elsewhere.
      ...(this.#below(4) === 0 ? { overrides: { trackPrefillTokens: false } } : {}),
      ...(this.#below(4) === 0 ? { goals: { ttftMs: 1 + this.#below(200), itlMs: 10 } } : {}),
    }
    return { tokens, hints }
  }

  decide(): void {
    const { tokens, hints } = this.#request()
    const full = select(this.#full.router, tokens, hints)
    const fast = select(this.#fast.router, tokens, hints)
    if (full.kind === 'refused' || fast.kind === 'refused') {
      expect(fast.kind).toBe(full.kind)
      return
    }
    const { terms, candidates } = full.record
    // Before speeds are known, costs are in blocks and are not a plain sum.
    const isTime = terms.some(({ name }) => name === 'stall')
    if (isTime) this.timed++
    for (const { cost, terms: values } of isTime ? candidates : []) {
      const sum = terms.reduce(
        (total, { name, role, weight }) =>
          role === 'add' ? total + weight * (values[name] ?? 0) : total,
        0,
      )
      expect(cost / Math.max(sum, 1)).toBeCloseTo(sum / Math.max(sum, 1), 9)
    }
    expect([fast.workerId, fast.dpRank, fast.cost]).toEqual([full.workerId, full.dpRank, full.cost])
    expect(fast.record.candidates).toEqual(candidates.slice(0, 3))
    if (this.#below(4) === 0) return
    this.#bookings.push({
      full: this.#full.router.book(full),
      fast: this.#fast.router.book(fast),
    })
    const holder = Number(full.workerId)
    if (this.#below(2) === 0) this.#both(({ router }) => stored(router, holder, tokens))
  }

  #act(act: (router: Pool['router'], booking: Booking) => void): void {
    const one = this.#bookings[this.#below(Math.max(this.#bookings.length, 1))]
    if (one === undefined) return
    act(this.#full.router, one.full)
    act(this.#fast.router, one.fast)
  }

  #end(tokens: number): void {
    this.#act((router, booking) => {
      router.served(booking, tokens)
      router.free(booking)
    })
    this.#bookings = this.#bookings.filter(({ full }) => !full.freed)
  }

  step(): void {
    const place = this.#below(this.#live.length)
    const worker = workerIdOf(this.#live[place]!)
    const [ms, tokens] = [this.#below(60), 1 + this.#below(40)]
    switch (this.#below(10)) {
      case 0:
        if (this.#live.length < this.#workersMax) this.join()
        return
      case 1:
        if (this.#live.length === 1 || this.#below(10) > 0) return
        this.#live.splice(place, 1)
        this.#both(({ router }) => router.workerLeft(worker, 'closed'))
        return
      case 2:
        for (let n = 0; n < 3; n++) this.#act((router, booking) => router.prefillDone(booking))
        return
      case 3:
        this.#act((router, booking) => void router.output(booking, tokens))
        return
      case 4:
        for (let n = 0; n < 2; n++) this.#end(tokens)
        return
      case 5: {
        const report = {
          sequence: this.#sequence++,
          dpRank: 0,
          runningRequests: this.#below(8),
          queuedRequests: Math.max(this.#below(8) - 5, 0),
          prefillTokensInFlight: this.#below(2000),
          activeBlocks: this.#below(120),
          totalBlocks: 0,
        }
        this.#both(({ router }) => router.load(worker, report))
        return
      }
      case 7: {
        const kind = (['sent', 'running', 'ended'] as const)[this.#below(3)] ?? 'sent'
        const told = { workerId: worker, dpRank: 0, promptTokens: 64, uncachedTokens: 32 }
        this.#both(({ router }) => router.peers.learn({ kind, ...told }))
        return
      }
      case 6:
        this.#both(({ clock }) => clock.advance(ms))
        return
      default:
        this.decide()
    }
  }
}

describe('pricing in milliseconds', () => {
  it('a prompt that was computed elsewhere - waiting for a place in a full batch costs time', () => {
    const { router } = buildPool({ cost: 'time', explainCandidates: 2 })
    // Its steps take as long with one request as with many, so only the wait differs.
    const pace = {
      promptMs: 10,
      promptTokenMs: 0.1,
      stepMs: 10,
      stepRequestMs: 0,
      stepContextTokenMs: 0,
    }
    const engine = { kvCacheBlockSize: 16, maxNumSeqs: 2, pace }
    for (const id of [1, 2]) router.workerJoined(card(id, 'agg', { engine }))
    const overrides = { trackPrefillTokens: false }
    const full = workerIdOf(1)
    for (let i = 0; i < 3; i++) {
      const pinned = select(router, 64, { overrides, decodeWorkerId: full })
      if (pinned.kind === 'refused') throw pinned.error
      router.book(pinned)
    }
    const chosen = select(router, 64, { overrides })
    if (chosen.kind === 'refused') throw chosen.error
    expect(chosen.workerId).toBe(workerIdOf(2))
    const [other, first] = chosen.record.candidates.map(({ terms }) => terms['queue'] ?? 0)
    expect(first).toBeGreaterThan(2 * (other ?? 0))
    expect(first).toBeGreaterThan(0)
  })

  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    'random fleet %i - every choice is that of all terms',
    (seed) => {
      const twins = new Twins(seed)
      for (let i = 0; i < 2; i++) twins.join()
      for (let i = 0; i < STEPS; i++) twins.step()
      expect(twins.timed).toBeGreaterThan(50)
    },
  )
})
