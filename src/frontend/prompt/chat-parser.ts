/**
 * Chooses the parser of a chat's output: as the worker's card states, otherwise as detected from the model's
 * template.
 */
import type { ChatCall } from '../../api/index.ts'
import {
  createOutputParser,
  createReasoningParser,
  createToolCallParser,
  detectOutputFormat,
} from '../../text/index.ts'
import type { ModelText, OutputFormat, OutputParser } from '../../text/index.ts'
import { offersTools } from './prompt.ts'
import type { PreparedPrompt } from './prompt.ts'
import type { ServedModel } from '../models/served-model.ts'

const detectedFormats = new WeakMap<ModelText, OutputFormat>()

/** For output that is not guided. */
export function chatParser(
  call: ChatCall,
  text: ModelText,
  model: ServedModel,
  prompt: PreparedPrompt,
): OutputParser | null {
  const format = outputFormatOf(text, model)
  const looksForCalls = offersTools(call)
  if (format.reasoning === null && !looksForCalls) return null
  return createOutputParser({
    reasoning: format.reasoning,
    toolCalls: looksForCalls ? format.toolCalls : null,
    tools: call.tools.map((tool) => tool.function),
    isThinkingOff: isThinkingOff(call, format),
    ...(prompt.text === undefined ? {} : { promptText: prompt.text }),
  })
}

/** By the template's own switch. Kimi K2.5 answers the result of a tool without thinking. */
export function isThinkingOff(call: ChatCall, format: OutputFormat): boolean {
  const { enable_thinking, thinking, thinking_mode, reasoning_effort } = call.templateArguments
  const isOff = enable_thinking === false || thinking === false || thinking_mode === 'disabled'
  const answersTool = call.messages.at(-1)?.role === 'tool' && format.reasoning === 'kimi_k25'
  const isWithoutEffort = reasoning_effort === 'none' && format.reasoning === 'mistral'
  return isOff || answersTool || isWithoutEffort
}

/** Requested by the template's switch or by a reasoning effort. */
export function isThinkingOn({ templateArguments }: ChatCall): boolean {
  const { enable_thinking, thinking, reasoning_effort } = templateArguments
  const hasEffort = typeof reasoning_effort === 'string' && reasoning_effort !== 'none'
  return enable_thinking === true || thinking === true || hasEffort
}

/** The engine's output is constrained to `{"name":…,"arguments":…}`. */
export function isForcedCall(call: ChatCall): boolean {
  return offersTools(call) && call.toolChoice !== 'auto'
}

/** Only the detection from the model's text is cached, because cards may change with the workers. */
export function outputFormatOf(text: ModelText, model: ServedModel): OutputFormat {
  let detected = detectedFormats.get(text)
  if (detected === undefined) detectedFormats.set(text, (detected = detectOutputFormat(text)))
  return chosenFormat(detected, model)
}

/** Unknown names are ignored; the composition root has checked the flags. */
function chosenFormat(detected: OutputFormat, model: ServedModel): OutputFormat {
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

/** The format with this name; `none` turns the parser off. */
function nameOr(
  detected: string | null,
  chosen: unknown,
  isKnown: (name: string) => boolean,
): string | null {
  if (chosen === 'none') return null
  return typeof chosen === 'string' && isKnown(chosen) ? chosen : detected
}
