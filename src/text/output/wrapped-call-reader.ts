/** Reads calls that have tags of their own inside a section: `<tool_call>…</tool_call>`, one after the other. */
import type { CallReader, CallSink, Reading } from './call-reader.ts'

interface WrappedCallForm {
  readonly open: string
  readonly close: string
  /** Creates the reader of the content of one call. */
  createReader(): CallReader
}

export class WrappedCallReader implements CallReader {
  readonly #form: WrappedCallForm
  /** Receives the calls of the inner readers and passes them on. */
  readonly #told: CallSink = {
    start: (name) => {
      this.#hasStarted = true
      this.#sink?.start(name)
    },
    arguments: (json) => this.#sink?.arguments(json),
    end: () => this.#sink?.end(),
  }
  #sink: CallSink | null = null
  #inner: CallReader | null = null
  #hasStarted = false
  /** Text read since the last reported call. */
  #read = ''

  constructor(form: WrappedCallForm) {
    this.#form = form
  }

  get unclaimed(): string {
    return this.#hasStarted ? '' : this.#read
  }

  get nextCall(): string | null {
    return this.#inner === null ? this.#form.open : null
  }

  get isInArguments(): boolean {
    return this.#inner?.isInArguments ?? false
  }

  read(text: string, sink: CallSink): Reading {
    this.#sink = sink
    let at = 0
    for (;;) {
      const inner = this.#inner
      const rest = text.slice(at)
      const step = inner === null ? this.#readOpen(rest) : this.#readCall(inner, rest)
      if (!this.#hasStarted) this.#read += text.slice(at, at + step.consumed)
      at += step.consumed
      const isWaiting = step.consumed === 0 && this.#inner === inner
      if (step.isWrong || isWaiting) return { consumed: at, isWrong: step.isWrong }
    }
  }

  end(sink: CallSink, rest: string): void {
    this.#sink = sink
    this.#inner?.end(this.#told, rest)
  }

  cutOff(sink: CallSink): void {
    this.#sink = sink
    this.#inner?.cutOff?.(this.#told)
  }

  #readOpen(text: string): Reading {
    const { open } = this.#form
    const blanks = /^\s+/.exec(text)?.[0].length ?? 0
    if (blanks > 0) return { consumed: blanks, isWrong: false }
    if (!text.startsWith(open)) return { consumed: 0, isWrong: !open.startsWith(text) }
    this.#inner = this.#form.createReader()
    // Blanks between calls are ignored; those of the first call are kept in case it is not a call.
    if (this.#hasStarted) this.#read = ''
    this.#hasStarted = false
    return { consumed: open.length, isWrong: false }
  }

  #readCall(inner: CallReader, text: string): Reading {
    const { close } = this.#form
    const { consumed, isWrong } = inner.read(text, this.#told)
    if (!isWrong) return { consumed, isWrong: false }
    const rest = text.slice(consumed)
    if (!rest.startsWith(close)) {
      return { consumed, isWrong: rest === '' || !close.startsWith(rest) }
    }
    inner.end(this.#told, '')
    if (!this.#hasStarted) return { consumed, isWrong: true }
    this.#inner = null
    return { consumed: consumed + close.length, isWrong: false }
  }
}
