/**
 * Lines for the log about connections that fail. They are tried again several times per second, so the same cause is
 * reported once a minute, and a minute has a limited number of causes, because a peer may choose its own.
 */
const SAME_AGAIN_MS = 60_000
const CAUSES_MAX = 64

export class LinkReports {
  readonly #write: (line: string) => void
  readonly #nowMs: () => number
  readonly #toldAtMs = new Map<string, number>()

  constructor(write: (line: string) => void, nowMs: () => number) {
    this.#write = write
    this.#nowMs = nowMs
  }

  tell(line: string): void {
    const nowMs = this.#nowMs()
    for (const [told, atMs] of this.#toldAtMs) {
      if (nowMs - atMs >= SAME_AGAIN_MS) this.#toldAtMs.delete(told)
    }
    if (this.#toldAtMs.has(line) || this.#toldAtMs.size >= CAUSES_MAX) return
    this.#toldAtMs.set(line, nowMs)
    this.#write(line)
  }
}
