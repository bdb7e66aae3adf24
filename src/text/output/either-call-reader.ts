/** Chooses the reader by the first non-blank character of a section: calls as JSON, or in the notation of the format. */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { JsonCallReader } from './json-call-reader.ts'

export class EitherCallReader implements CallReader {
  readonly #create: () => CallReader
  #reader: CallReader | null = null

  /** `create`: the reader for sections that do not begin like JSON. */
  constructor(create: () => CallReader) {
    this.#create = create
  }

  get unclaimed(): string {
    return this.#reader?.unclaimed ?? ''
  }

  get nextCall(): string | null {
    return this.#reader?.nextCall ?? null
  }

  get isInArguments(): boolean {
    return this.#reader?.isInArguments ?? false
  }

  read(text: string, sink: CallSink): Reading {
    if (this.#reader === null) {
      const first = text.trimStart().charAt(0)
      if (first === '') return { consumed: 0, isWrong: false }
      this.#reader = '[{'.includes(first) ? new JsonCallReader() : this.#create()
    }
    return this.#reader.read(text, sink)
  }

  end(sink: CallSink, rest: string): void {
    this.#reader?.end(sink, rest)
  }

  cutOff(sink: CallSink): void {
    this.#reader?.cutOff?.(sink)
  }
}
