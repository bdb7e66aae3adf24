/** Writes a text unit by unit without a string per unit. */
const BUFFERED = 4096
/** A shorter piece is copied: joined strings take memory for every piece. */
const SHORT = 64

export class TextWriter {
  /** Grows to `BUFFERED` and is written again from the start after each flush. */
  readonly #units: number[] = []
  #count = 0
  #text = ''

  /** One UTF-16 unit. */
  unit(code: number): void {
    if (this.#count === BUFFERED) this.#flush()
    this.#units[this.#count++] = code
  }

  append(text: string): void {
    if (text.length < SHORT) {
      for (let at = 0; at < text.length; at++) this.unit(text.charCodeAt(at))
      return
    }
    this.#flush()
    this.#text += text
  }

  /** Returns what was written, and begins again. */
  take(): string {
    this.#flush()
    const text = this.#text
    this.#text = ''
    return text
  }

  #flush(): void {
    if (this.#count === 0) return
    const units = this.#count === BUFFERED ? this.#units : this.#units.slice(0, this.#count)
    // Many times as fast as a spread.
    this.#text += String.fromCharCode.apply(null, units)
    this.#count = 0
  }
}
