/** Calls that are understood when their section is whole: formats that say only at their end what they mean. */
import type { CallReader, CallSink, Reading } from './call-reader.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { ToolCall } from './output-event.ts'

export class WholeCallReader implements CallReader {
  readonly #decode: (body: string) => readonly ToolCall[] | null
  readonly #closing: MarkerScanner
  #body = ''
  readonly isInArguments = false

  constructor(decode: (body: string) => readonly ToolCall[] | null, close: string | null) {
    this.#decode = decode
    this.#closing = new MarkerScanner(close === null ? [] : [close])
  }

  get unclaimed(): string {
    return this.#body
  }

  read(text: string): Reading {
    const scan = this.#closing.scan(text)
    const taken = scan.kind === 'text' ? scan.text : scan.before
    this.#body += taken
    return { consumed: taken.length, isWrong: scan.kind === 'marker' }
  }

  end(sink: CallSink): void {
    const calls = this.#decode(this.#body)
    if (calls === null) return
    this.#body = ''
    for (const call of calls) {
      sink.start(call.name)
      sink.arguments(call.argumentsJson)
      sink.end()
    }
  }
}
