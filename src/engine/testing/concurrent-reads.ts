/**
 * Streams that are read at the same time. An engine may run one request after the other, so the deadline of a stream
 * begins again when another one has ended.
 */
export class ConcurrentReads {
  #lastEndMs = -Infinity

  get lastEndMs(): number {
    return this.#lastEndMs
  }

  ended(nowMs: number): void {
    this.#lastEndMs = nowMs
  }
}
