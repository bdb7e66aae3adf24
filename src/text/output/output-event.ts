/**
 * What a model's text consists of once it is understood: text for the reader, reasoning, and calls of tools.
 *
 * A parser is a synchronous machine of one stream. However the text is cut into pushes, the events that it gives say
 * the same when joined.
 */
export type OutputEvent =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  /** `index` counts the calls of one output from 0. Arguments and the end of this call follow, in order. */
  | { readonly kind: 'tool-call-start'; readonly index: number; readonly name: string }
  /** A piece of the arguments as JSON text. */
  | { readonly kind: 'tool-call-arguments'; readonly index: number; readonly text: string }
  | { readonly kind: 'tool-call-end'; readonly index: number }

export interface OutputParser {
  /**
   * Control tokens that the parser must see as text: give them to `Detokenizer` as `keepTokens`, because they are
   * control tokens in most vocabularies.
   */
  readonly markers: readonly string[]
  push(text: string): readonly OutputEvent[]
  /**
   * The end of the output: what was withheld is decided. Nothing may be pushed after it. `isCut`: the model had not said all;
   * what can only be the begin of a call is no text then.
   */
  flush(isCut?: boolean): readonly OutputEvent[]
}

/** A tool that the request offers. */
export interface OfferedTool {
  readonly name: string
  /** JSON schema of its arguments: tells the types of values that some formats write without quotes. */
  readonly parameters?: unknown
}

export interface ToolCall {
  readonly name: string
  /** JSON text of an object. */
  readonly argumentsJson: string
}
