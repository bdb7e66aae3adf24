/** The sink of a prefill leg: its token is not sent to the client; only the terminal chunk and the hand-over are used. */
import type { BatonError } from '../../base/index.ts'
import type { Chunk, PrefillResult, PhaseEvent, ReplySink } from '../../request/index.ts'

interface PrefillSinkParts {
  onPhase(event: PhaseEvent): void
  /** Decode may start while the prefill runs; called at most once, before the end. */
  onMeeting?(result: PrefillResult): void
  onDone(chunk: Chunk, result: PrefillResult | null): void
  onError(error: BatonError): void
}

export class PrefillSink implements ReplySink {
  readonly #parts: PrefillSinkParts
  #result: PrefillResult | null = null
  readonly #tokenIds: number[] = []
  #hasMet = false
  isDone = false

  constructor(parts: PrefillSinkParts) {
    this.#parts = parts
  }

  onPhase(event: PhaseEvent): void {
    this.#parts.onPhase(event)
  }

  onToken(tokenId: number): void {
    this.#tokenIds.push(tokenId)
  }

  onChunk(chunk: Chunk): void {
    this.#tokenIds.push(...chunk.tokenIds)
    this.#result = chunk.prefillResult ?? this.#result
    if (chunk.finish === undefined) {
      if (chunk.prefillResult?.meetsDecode !== true || this.#hasMet) return
      this.#hasMet = true
      this.#parts.onMeeting?.(chunk.prefillResult)
      return
    }
    this.isDone = true
    this.#parts.onDone({ ...chunk, tokenIds: this.#tokenIds }, this.#result)
  }

  onError(error: BatonError): void {
    this.isDone = true
    this.#parts.onError(error)
  }
}
