/**
 * Reads one section of tool calls, in pieces of any size, and reports calls as soon as they are certain: first the
 * name, then the arguments as they arrive.
 */
export interface CallSink {
  start(name: string): void
  /** A piece of JSON text; the concatenated pieces of a call are its arguments. */
  arguments(json: string): void
  end(): void
}

export interface CallReader {
  /** Continues reading; `text` begins where the previous call stopped. */
  read(text: string, sink: CallSink): Reading
  /**
   * The section ends: by its closing marker, by invalid content, or with the output; `rest` is the unread end if a
   * call is in its arguments. May be called again.
   */
  end(sink: CallSink, rest: string): void
  /**
   * The output was cut off where only a call can be: reports a call whose name is complete. Absent: reports none that
   * early.
   */
  cutOff?(sink: CallSink): void
  /** Between two calls of a section: the marker with which another call begins, after text that is none. */
  readonly nextCall?: string | null
  /** Text that was read and belongs to no call; it is emitted as text if no call is found. */
  readonly unclaimed: string
  /** A call has begun and not ended: unreadable content is then part of its arguments as the model wrote them. */
  readonly isInArguments: boolean
}

export interface Reading {
  /** Less than the text's length if the rest may become a marker, or is invalid. */
  readonly consumed: number
  /** What follows is not a call: the end of the section, or invalid content. */
  readonly isWrong: boolean
}
