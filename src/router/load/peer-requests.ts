/**
 * Requests that other frontends have sent to the ranks of a pool, so that this frontend decides as if it had sent them
 * itself: prompts that are not computed yet are part of the backlog, running requests with their context are part of
 * the decode load, and measured times teach the same rates.
 *
 * Load reports of workers contain these requests too, but later and without their contexts; they are subtracted there
 * so that nothing is counted twice. A report with fewer requests than are known here shows that another frontend has
 * died.
 *
 * Bounded: a prompt is kept for `PROMPT_MS` at most and a running request for `RUNNING_MS` (afterwards only load
 * reports count it), at most `PROMPTS_MAX` prompts of the pool and `RUNNING_MAX` running requests of a rank; the oldest
 * are dropped.
 */
import type { Clock } from '../../base/index.ts'
import type { Booking } from './active-sequences.ts'
import type { PromptNews } from './peer-news.ts'
import type { RankBacklog } from './rank-backlog.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from '../ranks/rank-table.ts'
import { nextStartMsOf, sentPromptOf } from './sent-prompt.ts'

/** A frontend that has died never reports the end of its requests. */
const PROMPT_MS = 5000
const RUNNING_MS = 30_000
const PROMPTS_MAX = 4096
const RUNNING_MAX = 1024
const COMPACT_ABOVE = 64
/** A load report may have been sent before a request that another frontend has just announced. */
const REPORTED_AFTER_MS = 1000
const SWEEP_EVERY_MS = 1000
/** Other frontends have left when nothing was heard from them for so long. */
const ALONE_AFTER_MS = 10_000

export type ToldPrompt = Omit<PromptNews, 'pool'>

interface PeerPrompt {
  readonly slot: number
  readonly promptTokens: number
  readonly uncachedTokens: number
  readonly ms: number
  /** `RankBacklog.scale` when it was predicted. */
  readonly scale: number
  readonly isLong: boolean
  readonly heardMs: number
  isGone: boolean
}

interface PeerRunning {
  readonly promptTokens: number
  readonly uncachedTokens: number
  readonly sinceMs: number
}

interface PeerRequestsOptions {
  readonly table: RankTable
  readonly rates: RankRates
  readonly backlog: RankBacklog
  readonly clock: Clock
  /** Called after the load of a rank has changed. */
  readonly onChanged: (slot: number) => void
  /** Called for times that another frontend has measured. */
  readonly onMeasured: (slot: number, told: ToldPrompt) => void
  /** Called when a prompt of another frontend has its first token, so long after it was announced. */
  readonly onAnswered: (slot: number, uncachedTokens: number, elapsedMs: number) => void
  /** Sends a message to the other frontends; null: no messages are sent. */
  readonly tell: ((prompt: ToldPrompt) => void) | null
}

export class PeerRequests {
  readonly #options: PeerRequestsOptions
  /** In order of arrival; removed entries are dropped when they reach the front. */
  #prompts: PeerPrompt[] = []
  #first = 0
  /** By slot, in order of arrival. */
  readonly #running: (PeerRunning[] | undefined)[] = []
  #sweptMs = 0
  #heardMs = -Infinity

  constructor(options: PeerRequestsOptions) {
    this.#options = options
  }

  /** Tells the others about an own booking. */
  tell(kind: PromptNews['kind'], booking: Booking): void {
    const { tell, table } = this.#options
    if (tell === null) return
    const { slot, promptTokens, uncachedTokens, first, served } = booking
    const { card, dpRank } = table.row(slot)
    // Each is told once.
    booking.first = booking.served = null
    tell({
      kind,
      workerId: card.workerId,
      dpRank,
      promptTokens,
      uncachedTokens,
      ...(first !== null && { first }),
      ...(served !== null && { served }),
    })
  }

  learn(told: ToldPrompt): void {
    const { table, clock, backlog, onChanged, onMeasured } = this.#options
    const slot = table.slotOf(told.workerId, told.dpRank)
    if (slot === -1) return
    const nowMs = clock.nowMs()
    this.#heardMs = nowMs
    backlog.isAlone = false
    if (told.kind === 'sent') this.#sent(slot, told, nowMs)
    else if (told.kind === 'running') this.#runs(slot, told, nowMs)
    else this.#ended(slot, told, nowMs)
    onMeasured(slot, told)
    onChanged(slot)
  }

  /** Call before a decision: drops requests that are too old. */
  expire(): void {
    const nowMs = this.#options.clock.nowMs()
    if (nowMs - this.#sweptMs >= SWEEP_EVERY_MS) this.#sweepRunning(nowMs)
    if (this.#first === this.#prompts.length) return
    for (;;) {
      const prompt = this.#prompts[this.#first]
      if (prompt === undefined || (!prompt.isGone && nowMs - prompt.heardMs < PROMPT_MS)) break
      this.#endFirst(nowMs)
    }
  }

  /** The rank reports so many requests; `running`: those of this router that have a first token. */
  reported(slot: number, requests: number, running: number, nowMs: number): void {
    const list = this.#running[slot]
    if (list === undefined || list.length === 0) return
    for (let excess = running + list.length - requests; excess > 0; excess--) {
      const oldest = list[0]
      if (oldest === undefined || nowMs - oldest.sinceMs < REPORTED_AFTER_MS) break
      this.#endRunning(slot, list, 0, nowMs)
    }
  }

  /** Drops all requests of a rank that is removed. */
  dropSlot(slot: number): void {
    const nowMs = this.#options.clock.nowMs()
    for (let i = this.#first; i < this.#prompts.length; i++) {
      const prompt = this.#prompts[i] as PeerPrompt
      if (prompt.slot === slot) this.#endPrompt(prompt, nowMs)
    }
    const list = this.#running[slot] ?? []
    while (list.length > 0) this.#endRunning(slot, list, list.length - 1, nowMs)
    this.#running[slot] = undefined
  }

  #sent(slot: number, { promptTokens, uncachedTokens }: ToldPrompt, nowMs: number): void {
    const { table, rates, backlog } = this.#options
    this.expire()
    if (this.#prompts.length - this.#first === PROMPTS_MAX) this.#endFirst(nowMs)
    const sent = sentPromptOf(table, rates, backlog, slot, uncachedTokens, nowMs)
    const { ms, isLong } = sent
    backlog.explain(slot, ms, nowMs)
    backlog.prefillSent(slot, sent, nowMs)
    backlog.add(slot, promptTokens, nowMs)
    this.#count(slot, 1, uncachedTokens)
    const [heardMs, { scale }] = [nowMs, backlog]
    const prompt = { slot, promptTokens, uncachedTokens, ms, scale, isLong, heardMs, isGone: false }
    this.#prompts.push(prompt)
  }

  /** Its prompt is computed here, or (in a decode pool) was computed elsewhere. */
  #runs(slot: number, told: ToldPrompt, nowMs: number): void {
    const { promptTokens, uncachedTokens } = told
    this.#promptGone(slot, told, nowMs)
    const list = (this.#running[slot] ??= [])
    if (list.length === RUNNING_MAX) this.#endRunning(slot, list, 0, nowMs)
    const { backlog } = this.#options
    backlog.explain(slot, 0, nowMs)
    backlog.add(slot, promptTokens, nowMs)
    this.#count(slot, 1, 0)
    list.push({ promptTokens, uncachedTokens, sinceMs: nowMs })
  }

  #ended(slot: number, told: ToldPrompt, nowMs: number): void {
    const list = this.#running[slot] ?? []
    const { promptTokens, uncachedTokens } = told
    const at = list.findIndex(
      (each) => each.promptTokens === promptTokens && each.uncachedTokens === uncachedTokens,
    )
    if (at !== -1) return this.#endRunning(slot, list, at, nowMs)
    this.#promptGone(slot, told, nowMs)
  }

  /** It runs, or ended. */
  #promptGone(slot: number, told: ToldPrompt, nowMs: number): void {
    const prompt = this.#promptLike(slot, told)
    if (prompt !== null) {
      this.#endPrompt(prompt, nowMs)
      const isAnswered = told.kind === 'running' || told.first !== undefined
      const { uncachedTokens, heardMs } = prompt
      if (isAnswered) this.#options.onAnswered(slot, uncachedTokens, nowMs - heardMs)
    }
    this.#dropGone()
  }

  /** The oldest prompt of the same size; equal prompts are interchangeable. */
  #promptLike(slot: number, { promptTokens, uncachedTokens }: ToldPrompt): PeerPrompt | null {
    const prompts = this.#prompts
    for (let i = this.#first; i < prompts.length; i++) {
      const prompt = prompts[i] as PeerPrompt
      const { isGone } = prompt
      if (isGone || prompt.slot !== slot || prompt.promptTokens !== promptTokens) continue
      if (prompt.uncachedTokens === uncachedTokens) return prompt
    }
    return null
  }

  #endFirst(nowMs: number): void {
    const prompt = this.#prompts[this.#first++] as PeerPrompt
    this.#endPrompt(prompt, nowMs)
    this.#dropGone()
  }

  #endPrompt(prompt: PeerPrompt, nowMs: number): void {
    if (prompt.isGone) return
    prompt.isGone = true
    const { rates, backlog, onChanged } = this.#options
    const { slot, promptTokens, uncachedTokens, isLong } = prompt
    const ms = (prompt.ms * backlog.scale) / prompt.scale
    const nextStartMs = nextStartMsOf(rates, backlog, slot)
    backlog.prefillDone(slot, { ms, isLong, nextStartMs }, nowMs)
    backlog.free(slot, promptTokens, nowMs)
    this.#count(slot, -1, -uncachedTokens)
    onChanged(slot)
  }

  #endRunning(slot: number, list: PeerRunning[], at: number, nowMs: number): void {
    const [running] = list.splice(at, 1)
    if (running === undefined) return
    const { backlog, onChanged } = this.#options
    backlog.free(slot, running.promptTokens, nowMs)
    this.#count(slot, -1, 0)
    onChanged(slot)
  }

  #sweepRunning(nowMs: number): void {
    this.#sweptMs = nowMs
    this.#options.backlog.isAlone = nowMs - this.#heardMs >= ALONE_AFTER_MS
    for (const [slot, list] of this.#running.entries()) {
      if (list === undefined) continue
      while (list[0] !== undefined && nowMs - list[0].sinceMs >= RUNNING_MS) {
        this.#endRunning(slot, list, 0, nowMs)
      }
    }
  }

  #count(slot: number, requests: number, tokens: number): void {
    const { peerRequests, peerPromptTokens } = this.#options.table
    peerRequests[slot] = (peerRequests[slot] as number) + requests
    peerPromptTokens[slot] = (peerPromptTokens[slot] as number) + tokens
  }

  #dropGone(): void {
    while (this.#prompts[this.#first]?.isGone === true) this.#first++
    if (this.#first < COMPACT_ABOVE || 2 * this.#first < this.#prompts.length) return
    this.#prompts = this.#prompts.slice(this.#first)
    this.#first = 0
  }
}
