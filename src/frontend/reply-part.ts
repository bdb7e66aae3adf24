/**
 * What a model's text consists of once reasoning and tool calls are told apart, and who tells them apart.
 */
export interface ParsedToolCall {
  readonly name: string
  /** JSON text. */
  readonly arguments: string
  /** Undefined: the frontend makes one. */
  readonly id?: string
}

export type ReplyPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'tool-call'; readonly call: ParsedToolCall }

/** A pure streaming function with memory: text in any pieces, parts out. */
export interface ReplyParser {
  push(text: string): readonly ReplyPart[]
  end(): readonly ReplyPart[]
}
