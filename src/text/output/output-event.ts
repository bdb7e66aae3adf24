/**
 * The parsed output of a model: text, reasoning and tool calls.
 *
 * A parser is a synchronous state machine for one stream. However the text is divided into pushes, the concatenated
 * events are the same.
 */
export type OutputEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  /** `index` counts the calls of one output from 0. The arguments and the end of the same call follow in order. */
  | { readonly kind: 'tool-call-start'; readonly index: number; readonly name: string }
  /** A piece of the arguments as JSON text. */
  | { readonly kind: 'tool-call-arguments'; readonly index: number; readonly text: string }
  | { readonly kind: 'tool-call-end'; readonly index: number }

export interface OutputParser {
  /** Control tokens that the parser must see as text: pass them to `Detokenizer` as `keepTokens`. */
  readonly markers: readonly string[]
  push(text: string): readonly OutputEvent[]
  /**
   * End of the output: emits what was withheld. Nothing may be pushed afterwards. `isCut`: the output was cut off
   * (length limit), so that text which can only be the beginning of a call is not emitted as text.
   */
  flush(isCut?: boolean): readonly OutputEvent[]
}

/** A tool offered by the request. */
export interface OfferedTool {
  readonly name: string
  /** JSON schema of its arguments: needed for the types of values in formats without quotes. */
  readonly parameters?: unknown
}

export interface ToolCall {
  readonly name: string
  /** JSON text of an object. */
  readonly argumentsJson: string
}
