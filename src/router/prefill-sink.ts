/**
 * Reads the prefill leg: its token is not the client's, its terminal chunk and the hand-over are what counts.
 */
import type { BatonError } from '../base/index.ts'
import type { Chunk, PrefillResult, ReplySink, RoutedEvent } from '../request/index.ts'

interface PrefillSinkParts {
  readonly routed: ReplySink
  onDone(chunk: Chunk, result: PrefillResult | null): void
  onError(error: BatonError): void
}

export class PrefillSink implements ReplySink {
  readonly #parts: PrefillSinkParts
  #result: PrefillResult | null = null
  readonly #tokenIds: number[] = []
  isDone = false

  constructor(parts: PrefillSinkParts) {
    this.#parts = parts
  }

  onRouted(event: RoutedEvent): void {
    this.#parts.routed.onRouted?.(event)
  }

  onToken(tokenId: number): void {
    this.#tokenIds.push(tokenId)
  }

  onChunk(chunk: Chunk): void {
    this.#tokenIds.push(...chunk.tokenIds)
    this.#result = chunk.prefillResult ?? this.#result
    if (chunk.finish === undefined) return
    this.isDone = true
    this.#parts.onDone({ ...chunk, tokenIds: this.#tokenIds }, this.#result)
  }

  onError(error: BatonError): void {
    this.isDone = true
    this.#parts.onError(error)
  }
}
