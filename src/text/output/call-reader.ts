/**
 * What reads one section of tool calls, in pieces of any size, and tells calls as soon as they are certain: the name
 * when it is known, the arguments as they come.
 */
export interface CallSink {
  start(name: string): void
  /** A piece of JSON text; the pieces of a call, one behind the other, are its arguments. */
  arguments(json: string): void
  end(): void
}

export interface CallReader {
  /** Reads on; `text` begins where the last reading stopped. */
  read(text: string, sink: CallSink): Reading
  /**
   * The section is over: by its closing marker, by a fault, or with the output, of which `rest` is the unread end when a
   * call is in its arguments. May be called again.
   */
  end(sink: CallSink, rest: string): void
  /** The output was cut off where only a call can stand: one whose name is there is told. Absent: none is told so early. */
  cutOff?(sink: CallSink): void
  /** What was read and belongs to no call: text, when nothing can be made of it. */
  readonly unclaimed: string
  /** A call has begun and has not ended: what cannot be read is what the model wrote as its arguments. */
  readonly isInArguments: boolean
}

export interface Reading {
  /** Less than the text: the rest may become a marker, or is what is wrong. */
  readonly consumed: number
  /** What follows is no call: the section's end, or a fault. */
  readonly isWrong: boolean
}
