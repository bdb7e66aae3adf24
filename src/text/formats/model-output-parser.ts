/** The parser for a model's output stream: reasoning is separated first, and the rest is searched for tool calls. */
import type { ModelText } from '../model/model-text.ts'
import { AddressedParser } from '../channels/addressed-parser.ts'
import { TypedBlocksParser } from '../channels/typed-blocks-parser.ts'
import { HarmonyParser } from '../channels/harmony-parser.ts'
import type { OfferedTool, OutputEvent, OutputParser } from '../output/output-event.ts'
import { createReasoningParser, detectReasoningParser } from './reasoning-formats.ts'
import { createToolCallParser, detectToolCallParser } from './tool-formats.ts'

export interface OutputFormat {
  /** Names of the parsers; null: none. */
  readonly reasoning: string | null
  readonly toolCalls: string | null
}

interface ModelOutputOptions extends OutputFormat {
  readonly tools?: readonly OfferedTool[]
  /** The rendered prompt; its end shows whether the output begins inside reasoning. */
  readonly promptText?: string
  /** The client has disabled thinking. */
  readonly isThinkingOff?: boolean
}

/** Detects the format from the model's chat template, or from reasoning tags in the vocabulary. */
export function detectOutputFormat(model: ModelText): OutputFormat {
  const source = model.template?.source ?? ''
  const added = new Set(model.tokenizer.addedTokens.map((token) => token.text))
  const hasTags = added.has('<think>') && added.has('</think>')
  return {
    reasoning: detectReasoningParser(source) ?? (hasTags ? 'basic' : null),
    toolCalls: detectToolCallParser(model.template?.forTools.source ?? ''),
  }
}

/**
 * Null if there is nothing to parse: the text is the output. Also null for unknown names, which are validated at
 * startup.
 */
export function createOutputParser(options: ModelOutputOptions): OutputParser | null {
  const { promptText, isThinkingOff, tools } = options
  const reasoning =
    options.reasoning === null
      ? null
      : createReasoningParser(options.reasoning, { promptText, isThinkingOff })
  const toolCalls =
    options.toolCalls === null ? null : createToolCallParser(options.toolCalls, tools)
  // Some formats handle reasoning and tool calls in one parser; a second parser would find nothing.
  if (isWhole(toolCalls)) return toolCalls
  if (isWhole(reasoning)) return reasoning
  if (reasoning === null || toolCalls === null) return reasoning ?? toolCalls
  return new ChainedParser(reasoning, toolCalls)
}

function isWhole(parser: OutputParser | null): boolean {
  return (
    parser instanceof HarmonyParser ||
    parser instanceof AddressedParser ||
    parser instanceof TypedBlocksParser
  )
}

class ChainedParser implements OutputParser {
  readonly markers: readonly string[]
  readonly #first: OutputParser
  readonly #second: OutputParser

  constructor(first: OutputParser, second: OutputParser) {
    this.#first = first
    this.#second = second
    this.markers = [...first.markers, ...second.markers]
  }

  push(text: string): readonly OutputEvent[] {
    return this.#pass(this.#first.push(text))
  }

  flush(isCut?: boolean): readonly OutputEvent[] {
    return [...this.#pass(this.#first.flush(isCut)), ...this.#second.flush(isCut)]
  }

  #pass(events: readonly OutputEvent[]): readonly OutputEvent[] {
    const [only] = events
    if (only !== undefined && events.length === 1) {
      return only.kind === 'text' ? this.#second.push(only.text) : events
    }
    return events.flatMap((event) =>
      event.kind === 'text' ? this.#second.push(event.text) : [event],
    )
  }
}
