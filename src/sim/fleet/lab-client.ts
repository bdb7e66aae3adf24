/**
 * One client of a fleet: receives what a frontend would send over HTTP, measures it, and may disconnect before the
 * end.
 */
import type { BatonError } from '../../base/index.ts'
import type { SimRunData } from '../../simengine/index.ts'
import type { Chunk, PhaseEvent, ReplySink, RequestHandle } from '../../request/index.ts'
import type { ReplyWitness } from '../faults/reply-witness.ts'
import type { RequestLog } from '../report/request-log.ts'
import type { VirtualClock } from '../clock/virtual-clock.ts'

interface LabClientOptions {
  readonly index: number
  readonly clock: VirtualClock
  readonly log: RequestLog
  readonly witness: ReplyWitness | null
  /** Disconnects after this many tokens; 0: before the first one. Infinity: never. */
  readonly leavesAfter: number
  readonly onEnd: () => void
}

export class LabClient implements ReplySink {
  readonly #options: LabClientOptions
  readonly #arrivalMs: number
  #tokens = 0
  #lastMs = 0
  #handle: RequestHandle | null = null
  #hasLeft = false

  constructor(options: LabClientOptions) {
    this.#options = options
    this.#arrivalMs = options.clock.nowMs()
    options.log.arrived(options.index, this.#arrivalMs)
  }

  set handle(handle: RequestHandle) {
    this.#handle = handle
    if (this.#tokens >= this.#options.leavesAfter) this.#leave()
  }

  onToken(tokenId: number): void {
    this.#token(tokenId, this.#options.clock.nowMs())
  }

  onChunk(chunk: Chunk): void {
    const { index, clock, log, witness, leavesAfter } = this.#options
    const nowMs = clock.nowMs()
    const { stepEndsMs } = (chunk.engineData ?? {}) as Partial<SimRunData>
    const { tokenIds } = chunk
    const isLookedAt = witness !== null || leavesAfter !== Infinity
    if (stepEndsMs?.length === tokenIds.length && !isLookedAt) this.#tokensAt(stepEndsMs)
    else
      for (let i = 0; i < tokenIds.length; i++) this.#token(tokenIds[i]!, stepEndsMs?.[i] ?? nowMs)
    if (chunk.finish === undefined) return
    witness?.ended(index, chunk.finish, this.#tokens)
    log.ended(index, {
      code: chunk.finish === 'cancelled' ? 'request.cancelled' : null,
      atMs: nowMs,
      tokens: this.#tokens,
      lastTokenMs: this.#lastMs,
      cachedTokens: chunk.usage?.cachedTokens ?? 0,
    })
    this.#options.onEnd()
  }

  onError(error: BatonError): void {
    const { index, clock, log, witness } = this.#options
    witness?.failed(index, error.code)
    log.ended(index, {
      code: error.code,
      atMs: clock.nowMs(),
      tokens: this.#tokens,
      lastTokenMs: this.#lastMs,
      cachedTokens: 0,
    })
    this.#options.onEnd()
  }

  onPhase(event: PhaseEvent): void {
    if (event.kind === 'routed') this.#options.log.routed(this.#options.index, event)
  }

  #token(tokenId: number, atMs: number): void {
    const { index, log, witness, leavesAfter } = this.#options
    witness?.token(index, this.#tokens, tokenId)
    if (this.#tokens === 0) log.firstToken(index, atMs)
    else log.gap(atMs - this.#lastMs)
    this.#lastMs = atMs
    this.#tokens += 1
    if (this.#tokens >= leavesAfter) this.#leave()
  }

  /** Only the times of the tokens are needed, not the tokens. */
  #tokensAt(timesMs: Float64Array): void {
    const { index, log } = this.#options
    if (timesMs.length === 0) return
    if (this.#tokens === 0) log.firstToken(index, timesMs[0]!)
    else log.gap(timesMs[0]! - this.#lastMs)
    log.gaps(timesMs)
    this.#lastMs = timesMs.at(-1)!
    this.#tokens += timesMs.length
  }

  #leave(): void {
    if (this.#hasLeft || this.#handle === null) return
    this.#hasLeft = true
    this.#handle.cancel('stop')
  }
}
