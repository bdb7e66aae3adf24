/**
 * The main loop of the engine: one step after another, as long as there is work.
 *
 * A step puts new runs into free slots, computes at most one piece of one prompt, and then one token of every
 * decoding run. A prompt of any length therefore delays the others by at most one piece. Prompts are computed in
 * order of arrival. Nothing else calls llama.cpp's context. The results of steps are collected until they are taken.
 */
import { BatonError } from '../../base/index.ts'
import { Candidates } from '../native/candidates.ts'
import { EXACT_TOKENS_MIN } from '../native/llama-session.ts'
import type { DecodeItem } from '../native/llama-session.ts'
import { logprobsOf } from '../native/logits.ts'
import { stateOfBlocks, tokensIn } from './block-memory.ts'
import { Embedder } from './embedder.ts'
import type { OpenModel } from './open-model.ts'
import { PromptKeeper } from './prompt-keeper.ts'
import { Sequence } from './sequence.ts'
import { StepNews } from './step-news.ts'
import type { RunRequest, StepMessage } from './thread-messages.ts'
import { TokenChooser } from './token-chooser.ts'

interface StepLoopOptions {
  readonly sequences: number
  readonly prefillChunk: number
  readonly blockTokens: number
}

export class StepLoop {
  readonly #model: OpenModel
  readonly #candidates: Candidates
  readonly #waiting: RunRequest[] = []
  readonly #slots: (Sequence | undefined)[]
  /** In order of arrival. */
  readonly #active: Sequence[] = []
  readonly #news = new StepNews()
  readonly #embedder: Embedder
  readonly #keeper: PromptKeeper

  constructor(model: OpenModel, { sequences, ...settings }: StepLoopOptions) {
    const { prefillChunk } = settings
    this.#model = model
    this.#keeper = new PromptKeeper(model, { ...settings, news: this.#news })
    this.#embedder = new Embedder({ open: model.openEmbeddings, prefillChunk, news: this.#news })
    this.#candidates = new Candidates(model.session.api, model.session.vocabSize)
    this.#slots = Array.from({ length: sequences }, () => undefined)
  }

  get hasWork(): boolean {
    const isBusy = this.#active.length > 0 || this.#waiting.length > 0
    return isBusy || this.#embedder.hasWork || !this.#news.isEmpty
  }

  submit(request: RunRequest): void {
    this.#waiting.push(request)
  }

  embed(id: number, tokenIds: Uint32Array): void {
    this.#embedder.submit(id, tokenIds)
  }

  cancel(id: number): void {
    if (this.#embedder.cancel(id)) return
    const at = this.#waiting.findIndex((request) => request.id === id)
    const sequence = this.#active.find(({ request }) => request.id === id)
    if (at !== -1) this.#waiting.splice(at, 1)
    else if (sequence === undefined) return
    if (sequence !== undefined) this.#free(sequence)
    this.#news.end({ id, finish: 'cancelled', tokenIds: [] })
  }

  /** True when the results must not wait for another step, or there will be none. */
  get isNewsUrgent(): boolean {
    return this.#news.isUrgent || this.#active.length === 0
  }

  /** The results since the last call; undefined: none. */
  takeNews(): StepMessage | number[] | undefined {
    return this.#news.take()
  }

  step(): void {
    try {
      this.#admit()
      const prefilling = this.#active.find(({ state }) => state === 'prefill')
      if (prefilling !== undefined) this.#prefill(prefilling)
      this.#decode()
    } catch (thrown) {
      const error = BatonError.from(thrown, 'backend.unknown')
      for (const sequence of this.#active.slice()) this.#fail(sequence, error)
    }
    this.#embedder.step()
  }

  close(): void {
    for (const sequence of this.#active.slice()) this.#free(sequence)
    this.#waiting.length = 0
    this.#embedder.close()
  }

  #admit(): void {
    while (this.#waiting.length > 0) {
      // The lowest one, because neighbouring sequences decode in one batch.
      const slot = this.#slots.indexOf(undefined)
      const request = slot === -1 ? undefined : this.#waiting.shift()
      if (request === undefined) return
      try {
        const sequence = new Sequence(request, slot, this.#createChooser(request))
        this.#slots[slot] = sequence
        this.#active.push(sequence)
        this.#load(sequence)
        this.#keeper.plan(sequence)
        if (sequence.computedTokens >= sequence.prefillTokens) this.#finishPrefill(sequence)
      } catch (thrown) {
        const error = BatonError.from(thrown, 'backend.unknown')
        const sequence = this.#slots[slot]
        if (sequence === undefined) this.#news.failed(request.id, error)
        else this.#fail(sequence, error)
      }
    }
  }

  #createChooser(request: RunRequest): TokenChooser | undefined {
    const { session, endTokens, contextLength } = this.#model
    const { api, vocab, vocabSize } = session
    const candidates = this.#candidates
    const shared = { api, vocab, vocabSize, candidates, endTokens, contextLength }
    const chooser = new TokenChooser(shared, request)
    if (request.mode !== 'prefill') return chooser
    // Prefill generates nothing, but a grammar that decode would refuse is detected before the prompt is computed.
    chooser.dispose()
    return undefined
  }

  /** Fills the empty slot with the cached blocks of the prompt. */
  #load(sequence: Sequence): void {
    const { session, layout } = this.#model
    const { id, held } = sequence.request
    if (layout === undefined || held.addresses.length === 0) return
    const state = stateOfBlocks(held, layout, session.streamCount, (byteLength) =>
      session.stateMemory(byteLength),
    )
    // If llama.cpp refuses the state, the prompt is computed, and usage shows fewer cached tokens.
    if (session.loadState(sequence.slot, state)) sequence.computedTokens = tokensIn(held)
    else session.clearSequence(sequence.slot)
    this.#news.loaded(id, sequence.computedTokens)
  }

  #prefill(sequence: Sequence): void {
    const { session } = this.#model
    const { id, promptLogprobs } = sequence.request
    if (this.#keeper.goAhead(sequence)) return
    let count = this.#keeper.pieceLength(sequence)
    // Logits of a whole vocabulary per token: one small piece at a time, but not smaller than an exact shape.
    if (promptLogprobs !== undefined && count >= 2 * EXACT_TOKENS_MIN) count = EXACT_TOKENS_MIN
    const piece = sequence.promptPiece(count)
    const from = sequence.computedTokens
    if (promptLogprobs === undefined) {
      const startedMs = performance.now()
      session.prefill(sequence.slot, from, piece)
      this.#keeper.note(Math.max(count, EXACT_TOKENS_MIN), performance.now() - startedMs)
    } else {
      session.prefillWithLogits(sequence.slot, from, piece)
      this.#scorePrompt(sequence, from, count, promptLogprobs)
    }
    sequence.computedTokens = from + count
    this.#news.progress(id, sequence.computedTokens)
    if (sequence.computedTokens < sequence.prefillTokens) return
    this.#keeper.keep(sequence)
    this.#finishPrefill(sequence)
  }

  #scorePrompt(sequence: Sequence, from: number, count: number, top: number): void {
    const { logits, vocabSize } = this.#model.session
    const { id, tokenIds } = sequence.request
    const scores = Array.from({ length: count }, (_, row) => {
      const next = tokenIds[from + row + 1] ?? 0
      return logprobsOf(logits.subarray(row * vocabSize, (row + 1) * vocabSize), next, top)
    })
    this.#news.promptScored(id, scores)
  }

  #finishPrefill(sequence: Sequence): void {
    const { id, mode, maxTokens } = sequence.request
    if (mode !== 'prefill' && maxTokens > 0) {
      sequence.state = 'decode'
      return
    }
    this.#free(sequence)
    this.#news.end({ id, finish: 'length', tokenIds: [] })
  }

  #decode(): void {
    const decoding = this.#slots.filter((sequence) => sequence?.state === 'decode') as Sequence[]
    if (decoding.length === 0) return
    if (this.#model.decodesTogether) this.#decodeBatch(decoding)
    else for (const sequence of decoding) this.#decodeBatch([sequence])
  }

  #decodeBatch(decoding: readonly Sequence[]): void {
    const { session } = this.#model
    const items = decoding.map((sequence): DecodeItem => ({
      sequence: sequence.slot,
      position: sequence.computedTokens,
      token: sequence.nextToken,
      wantsLogits: sequence.isAtEnd,
    }))
    session.decode(items)
    const { logits, vocabSize } = session
    let row = 0
    for (const [i, sequence] of decoding.entries()) {
      sequence.computedTokens += 1
      if (items[i]?.wantsLogits !== true) continue
      this.#choose(sequence, logits.subarray(row * vocabSize, (row + 1) * vocabSize))
      row++
    }
  }

  #choose(sequence: Sequence, logits: Float32Array): void {
    const { id, logprobs, stop } = sequence.request
    const token = sequence.chooser?.choose(logits, sequence.outputIndex) ?? -1
    if (token < 0) {
      const what = 'llama.cpp chose no token: there are no logits, or the grammar allows none'
      return this.#fail(sequence, new BatonError('backend.unknown', what))
    }
    const scores = logprobs === undefined ? undefined : logprobsOf(logits, token, logprobs)
    const verdict = sequence.take(token, this.#model.endTokens)
    if (verdict === 'goes on')
      return this.#news.token(id, token, scores, sequence.outputTokens === 1)
    this.#free(sequence)
    const isShown = verdict === 'length' || stop.includeStopInOutput === true
    this.#news.end({
      id,
      finish: verdict,
      tokenIds: isShown ? [token] : [],
      ...(isShown && scores !== undefined ? { logprobs: [scores] } : {}),
      ...(verdict === 'length' ? {} : { stopReason: token }),
    })
  }

  #fail(sequence: Sequence, error: BatonError): void {
    this.#free(sequence)
    this.#news.failed(sequence.request.id, error)
  }

  #free(sequence: Sequence): void {
    const at = this.#active.indexOf(sequence)
    if (at === -1) return
    this.#active.splice(at, 1)
    this.#slots[sequence.slot] = undefined
    sequence.chooser?.dispose()
    this.#model.session.clearSequence(sequence.slot)
  }
}
