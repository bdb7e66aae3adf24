/**
 * Converts the choices of an exchange into what the client reads: events as they arrive, or one body.
 */
import type { BatonError } from '../../base/index.ts'
import type { ChoiceOutput, ChoiceSink } from './choice-sink.ts'
import type { EventStream } from './event-stream.ts'
import type { ReplyContext } from './reply-context.ts'

export interface ReplyWriter {
  createOutput(index: number): ChoiceOutput
  /** In the order of the indexes, before anything is written. */
  addChoice(choice: ChoiceSink): void
  began(): void
  completed(): void
  brokeOff(error: BatonError): void
  keepAlive(): void
}

export interface StreamedWriter extends ReplyWriter {
  readonly stream: EventStream
}

export interface WholeWriter extends ReplyWriter {
  /** JSON text; called after `completed`. */
  body(): string
}

/** The reply formats of one API. */
export interface ReplyWriters {
  readonly idPrefix: string
  streamed(context: ReplyContext, annotations: readonly string[]): StreamedWriter
  whole(context: ReplyContext): WholeWriter
}
