/**
 * Prompts that other frontends have sent to the ranks of a pool and that are not computed yet. They are part of the
 * backlog like own prompts, so that a decision can queue behind them or have a prompt computed in the same step.
 *
 * Load reports of workers contain these prompts too, but later; they are subtracted there so that nothing is counted
 * twice. After the first token only the load reports count a request.
 *
 * Bounded: a prompt is kept for `KEPT_MS` at most, and at most `PROMPTS_MAX` prompts are kept (the oldest is dropped).
 */
import type { Clock } from '../../base/index.ts'
import type { Booking } from './active-sequences.ts'
import type { PromptNews } from './peer-news.ts'
import type { RankBacklog } from './rank-backlog.ts'
import { sentPromptOf } from './rank-forecast.ts'
import type { RankRates } from './rank-rates.ts'
import type { RankTable } from './rank-table.ts'

/** A frontend that has died never reports the end of its prompts. */
const KEPT_MS = 5000
const PROMPTS_MAX = 4096
const COMPACT_ABOVE = 64

export type ToldPrompt = Omit<PromptNews, 'pool'>

interface PeerPrompt {
  readonly slot: number
  readonly promptTokens: number
  readonly uncachedTokens: number
  readonly ms: number
  readonly isLong: boolean
  readonly heardMs: number
  isGone: boolean
}

export interface PeerPromptsOptions {
  readonly table: RankTable
  readonly rates: RankRates
  readonly backlog: RankBacklog
  readonly clock: Clock
  /** Called after the backlog of a rank has changed. */
  readonly onChanged: (slot: number) => void
  /** Sends a message to the other frontends; null: no messages are sent. */
  readonly tell: ((prompt: ToldPrompt) => void) | null
}

export class PeerPrompts {
  readonly #options: PeerPromptsOptions
  /** In order of arrival; removed entries are dropped when they reach the front. */
  #prompts: PeerPrompt[] = []
  #first = 0

  constructor(options: PeerPromptsOptions) {
    this.#options = options
  }

  /** Tells the others about an own booking. `runs`: the request continues after its prompt. */
  tell(kind: PromptNews['kind'], booking: Booking, runs: boolean): void {
    const { tell, table } = this.#options
    if (tell === null) return
    const { slot, promptTokens, uncachedTokens } = booking
    const { card, dpRank } = table.row(slot)
    tell({ kind, workerId: card.workerId, dpRank, promptTokens, uncachedTokens, runs })
  }

  learn(prompt: ToldPrompt): void {
    const { table, clock, onChanged } = this.#options
    const slot = table.slotOf(prompt.workerId, prompt.dpRank)
    if (slot === -1) return
    if (prompt.kind === 'sent') this.#sent(slot, prompt, clock.nowMs())
    else this.#computed(slot, prompt, clock.nowMs())
    onChanged(slot)
  }

  /** Call before a decision: drops prompts that are too old. */
  expire(): void {
    if (this.#first === this.#prompts.length) return
    const nowMs = this.#options.clock.nowMs()
    for (;;) {
      const prompt = this.#prompts[this.#first]
      if (prompt === undefined || (!prompt.isGone && nowMs - prompt.heardMs < KEPT_MS)) break
      this.#endFirst(nowMs)
    }
  }

  /** Drops all prompts of a rank that is removed. */
  dropSlot(slot: number): void {
    const nowMs = this.#options.clock.nowMs()
    for (let i = this.#first; i < this.#prompts.length; i++) {
      const prompt = this.#prompts[i] as PeerPrompt
      if (prompt.slot === slot) this.#end(prompt, nowMs)
    }
  }

  #sent(slot: number, { promptTokens, uncachedTokens }: ToldPrompt, nowMs: number): void {
    const { table, rates, backlog } = this.#options
    this.expire()
    if (this.#prompts.length - this.#first === PROMPTS_MAX) this.#endFirst(nowMs)
    const sent = sentPromptOf(table, rates, backlog, slot, uncachedTokens)
    const { ms, isLong } = sent
    backlog.explain(slot, ms, nowMs)
    backlog.prefillSent(slot, sent, nowMs)
    backlog.add(slot, promptTokens, nowMs)
    this.#count(slot, 1, uncachedTokens)
    const heardMs = nowMs
    this.#prompts.push({ slot, promptTokens, uncachedTokens, ms, isLong, heardMs, isGone: false })
  }

  /** Ends the oldest prompt of the same size; equal prompts are interchangeable. */
  #computed(slot: number, told: ToldPrompt, nowMs: number): void {
    const { promptTokens, uncachedTokens, runs } = told
    const prompts = this.#prompts
    const isMeant = (prompt: PeerPrompt): boolean =>
      !prompt.isGone &&
      prompt.slot === slot &&
      prompt.promptTokens === promptTokens &&
      prompt.uncachedTokens === uncachedTokens
    for (let i = this.#first; i < prompts.length; i++) {
      const prompt = prompts[i] as PeerPrompt
      if (!isMeant(prompt)) continue
      this.#end(prompt, nowMs)
      // Until the next load report contains it.
      if (runs) this.#options.backlog.addOther(slot)
      break
    }
    this.#dropGone()
  }

  #endFirst(nowMs: number): void {
    const prompt = this.#prompts[this.#first++] as PeerPrompt
    this.#end(prompt, nowMs)
    this.#dropGone()
  }

  #end(prompt: PeerPrompt, nowMs: number): void {
    if (prompt.isGone) return
    prompt.isGone = true
    const { backlog, onChanged } = this.#options
    const { slot, promptTokens, uncachedTokens, ms, isLong } = prompt
    backlog.prefillDone(slot, ms, isLong, nowMs)
    backlog.free(slot, promptTokens, nowMs)
    this.#count(slot, -1, -uncachedTokens)
    onChanged(slot)
  }

  #count(slot: number, prompts: number, tokens: number): void {
    const { peerPrompts, peerPromptTokens } = this.#options.table
    peerPrompts[slot] = (peerPrompts[slot] as number) + prompts
    peerPromptTokens[slot] = (peerPromptTokens[slot] as number) + tokens
  }

  #dropGone(): void {
    while (this.#prompts[this.#first]?.isGone === true) this.#first++
    if (this.#first < COMPACT_ABOVE || 2 * this.#first < this.#prompts.length) return
    this.#prompts = this.#prompts.slice(this.#first)
    this.#first = 0
  }
}
