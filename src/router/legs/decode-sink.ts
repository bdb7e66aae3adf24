/**
 * Reads the decode leg while a prefill leg still runs or the client has left: the client's sink is not called after its end, and
 * a failure is the request's, not only this leg's.
 */
import type { BatonError } from '../../base/index.ts'
import type { Chunk, PhaseEvent, ReplySink } from '../../request/index.ts'

interface DecodeSinkParts {
  isEnded(): boolean
  /** It answers. */
  onOutput(): void
  onEnd(): void
  onError(error: BatonError): void
}

export class DecodeSink implements ReplySink {
  readonly #client: ReplySink
  readonly #parts: DecodeSinkParts

  constructor(client: ReplySink, parts: DecodeSinkParts) {
    this.#client = client
    this.#parts = parts
  }

  onToken(tokenId: number): void {
    if (this.#parts.isEnded()) return
    this.#parts.onOutput()
    this.#client.onToken(tokenId)
  }

  onChunk(chunk: Chunk): void {
    if (this.#parts.isEnded()) return
    this.#parts.onOutput()
    if (chunk.finish !== undefined) this.#parts.onEnd()
    this.#client.onChunk(chunk)
  }

  onError(error: BatonError): void {
    this.#parts.onError(error)
  }

  onPhase(event: PhaseEvent): void {
    if (!this.#parts.isEnded()) this.#client.onPhase?.(event)
  }
}
