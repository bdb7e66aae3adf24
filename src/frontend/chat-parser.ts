/**
 * Which parser reads the output of a chat: as the worker's card says, else as the model's template shows.
 */
import { isPlainObject } from '../api/index.ts'
import type { ChatCall } from '../api/index.ts'
import {
  createOutputParser,
  createReasoningParser,
  createToolCallParser,
  detectOutputFormat,
} from '../text/index.ts'
import type { ModelText, OutputEvent, OutputFormat, OutputParser } from '../text/index.ts'
import type { PreparedPrompt } from './prompt.ts'
import type { ServedModel } from './served-model.ts'

const formats = new WeakMap<ModelText, OutputFormat>()

export function chatParser(
  call: ChatCall,
  text: ModelText,
  model: ServedModel,
  prompt: PreparedPrompt,
): OutputParser | null {
  if (isForcedCall(call)) return new ForcedCallParser()
  // All of it is the answer then, and a tag inside of it is text.
  if (call.sampling.guided !== undefined) return null
  const format = outputFormatOf(text, model)
  const looksForCalls = call.tools.length > 0 && call.toolChoice !== 'none'
  if (format.reasoning === null && !looksForCalls) return null
  return createOutputParser({
    reasoning: format.reasoning,
    toolCalls: looksForCalls ? format.toolCalls : null,
    tools: call.tools.map((tool) => tool.function),
    ...(prompt.text === undefined ? {} : { promptText: prompt.text }),
  })
}

function isForcedCall(call: ChatCall): boolean {
  return call.tools.length > 0 && call.toolChoice !== 'none' && call.toolChoice !== 'auto'
}

export function outputFormatOf(text: ModelText, model: ServedModel): OutputFormat {
  let format = formats.get(text)
  if (format === undefined) formats.set(text, (format = chosenFormat(text, model)))
  return format
}

/** Names that nobody knows do not count; the composition root checks the flags before. */
function chosenFormat(text: ModelText, model: ServedModel): OutputFormat {
  const detected = detectOutputFormat(text)
  const data = model.cards.find((card) => card.engine.runtimeData !== undefined)?.engine.runtimeData
  const reasoning = data?.['reasoning_parser']
  const toolCalls = data?.['tool_call_parser']
  return {
    reasoning: nameOr(
      detected.reasoning,
      reasoning,
      (name) => createReasoningParser(name) !== null,
    ),
    toolCalls: nameOr(detected.toolCalls, toolCalls, (name) => createToolCallParser(name) !== null),
  }
}

/** What was chosen by name; `none` turns the parser off. */
function nameOr(
  detected: string | null,
  chosen: unknown,
  isKnown: (name: string) => boolean,
): string | null {
  if (chosen === 'none') return null
  return typeof chosen === 'string' && isKnown(chosen) ? chosen : detected
}

/** `tool_choice` required or named: the engine is held to `{"name":…,"arguments":…}`, and all of the output is that. */
class ForcedCallParser implements OutputParser {
  readonly markers: readonly string[] = []
  #text = ''

  push(text: string): readonly OutputEvent[] {
    this.#text += text
    return []
  }

  flush(): readonly OutputEvent[] {
    const call = readCall(this.#text)
    // Cut off by max_tokens: what there is, is shown as it is.
    if (call === null) return this.#text === '' ? [] : [{ kind: 'text', text: this.#text }]
    return [
      { kind: 'tool-call-start', index: 0, name: call.name },
      { kind: 'tool-call-arguments', index: 0, text: call.argumentsJson },
      { kind: 'tool-call-end', index: 0 },
    ]
  }
}

function readCall(text: string): { name: string; argumentsJson: string } | null {
  try {
    const value: unknown = JSON.parse(text)
    if (!isPlainObject(value) || typeof value['name'] !== 'string') return null
    return { name: value['name'], argumentsJson: JSON.stringify(value['arguments'] ?? {}) }
  } catch {
    return null
  }
}
