/** What follows `[TOOL_CALLS]`: a list of JSON calls, or, in newer models, one call as `name[ARGS]{…}`. */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { JsonCallReader } from './json-call-reader.ts'
import { MarkedCallReader } from './marked-call-reader.ts'

const NAMED = {
  begin: null,
  end: null,
  head: /^\s*([\w.-]+)(?:\[CALL_ID\][\w-]+)?\s*(?:\[ARGS\])?\s*$/,
}

export class MistralCallReader implements CallReader {
  /** Decided by the first character that is no blank. */
  #reader: CallReader | null = null

  get unclaimed(): string {
    return this.#reader?.unclaimed ?? ''
  }

  get isInArguments(): boolean {
    return this.#reader?.isInArguments ?? false
  }

  read(text: string, sink: CallSink): Reading {
    if (this.#reader === null) {
      const first = text.trimStart().charAt(0)
      if (first === '') return { consumed: 0, isWrong: false }
      this.#reader = '[{'.includes(first) ? new JsonCallReader() : new MarkedCallReader(NAMED, null)
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
