/**
 * Guided output for a model: which thoughts may come before it, and which tool calls may replace it; the
 * grammar of all that, and the parser that reads it.
 *
 * Only for engines that accept Baton's grammars. Other engines get the shape alone and determine themselves
 * where it starts.
 */
import { forcedCallSchema } from '../../api/index.ts'
import type { ChatCall } from '../../api/index.ts'
import type { GuidedDecoding } from '../../request/index.ts'
import {
  GuidedOutputParser,
  callFormsOf,
  callGrammar,
  createForcedCallParser,
  createToolCallParser,
  guidedGrammar,
  modelOutputGrammar,
  thoughtFormOf,
} from '../../text/index.ts'
import type { ModelOutputForm, ModelText, OutputFormat, OutputParser } from '../../text/index.ts'
import type { ServedModel } from '../models/served-model.ts'
import { isForcedCall, isThinkingOff, isThinkingOn, outputFormatOf } from './chat-parser.ts'
import { offersTools } from './prompt.ts'
import type { PreparedPrompt } from './prompt.ts'

/** Number of ids at the end of a prompt that determine the chosen tool. */
const DRAWN_FROM = 256

/** Null: nothing but the shape itself is allowed. */
function guidedForm(
  call: ChatCall,
  format: OutputFormat,
  model: ServedModel,
  prompt: PreparedPrompt,
): ModelOutputForm | null {
  if (model.features?.includes('gbnf') !== true) return null
  const thought = thoughtForm(call, format, prompt)
  const mayCall = offersTools(call) && call.toolChoice === 'auto' && format.toolCalls !== null
  const tools = call.tools.map((tool) => tool.function)
  // An engine that draws its texts at random would write nothing that is read as a call in other notations.
  const isDrawn = model.features.includes('drawn_texts')
  const calls = mayCall
    ? callFormsOf(format.toolCalls, tools).filter(({ isJson }) => isJson || !isDrawn)
    : []
  if (thought === null && calls.length === 0) return null
  return { thought, calls, allowsSeveralCalls: call.parallelToolCalls }
}

function thoughtForm(
  call: ChatCall,
  format: OutputFormat,
  prompt: PreparedPrompt,
): ModelOutputForm['thought'] {
  if (format.reasoning === null) return null
  const form = thoughtFormOf(format.reasoning, {
    isThinkingOff: isThinkingOff(call, format),
    ...(prompt.text === undefined ? {} : { promptText: prompt.text }),
  })
  // A choice or a pattern is expected at once, unless the model always thinks or thinking was requested.
  const { kind } = call.sampling.guided ?? {}
  const isAtOnce = kind === 'choice' || kind === 'regex' || kind === 'grammar'
  return form === null || form.isInside || !isAtOnce || isThinkingOn(call) ? form : null
}

/**
 * The constraint for the engine: the requested shape, with what may come before it or instead. Keywords of the tools'
 * schemas that no grammar can express are added to `relaxed`.
 */
export function guidedForModel(
  guided: GuidedDecoding,
  call: ChatCall,
  text: ModelText,
  model: ServedModel,
  prompt: PreparedPrompt,
  relaxed: Set<string>,
): GuidedDecoding {
  const form = guidedForm(call, outputFormatOf(text, model), model, prompt)
  if (form === null) return guided
  const schema = forcedCallSchema(call.tools)
  const toolCall = form.calls.some(({ isJson }) => isJson)
    ? guidedGrammar({ kind: 'json-schema', schema, isRelaxed: true, field: 'tools' }, relaxed)
    : ''
  const gbnf = modelOutputGrammar(guidedGrammar(guided), toolCall, form)
  return { kind: 'grammar', gbnf, ...(guided.field === undefined ? {} : { field: guided.field }) }
}

/**
 * The grammar of the calls that an engine may draw, in the notation of this model; undefined: there is none.
 * One tool is chosen here by the prompt, because a grammar of all tools would cost more than the rest of the
 * request.
 */
export function drawableCalls(
  call: ChatCall,
  text: ModelText,
  model: ServedModel,
  { tokenIds }: PreparedPrompt,
): string | undefined {
  const { toolCalls } = outputFormatOf(text, model)
  if (!offersTools(call) || call.toolChoice !== 'auto' || toolCalls === null) return undefined
  const sum = tokenIds.subarray(-DRAWN_FROM).reduce((all, id) => (all * 31 + id) % 1_000_003, 0)
  const tool = call.tools[(sum + tokenIds.length) % call.tools.length]
  if (tool === undefined) return undefined
  const calls = callFormsOf(toolCalls, [tool.function])
  const schema = forcedCallSchema([tool])
  const shape = { kind: 'json-schema', schema, isRelaxed: true, field: 'tools' } as const
  const form = { thought: null, calls, allowsSeveralCalls: call.parallelToolCalls }
  return callGrammar(guidedGrammar(shape), form) ?? undefined
}

/** Null: all of the output is the answer, and a tag in it is text. */
export function guidedParser(
  call: ChatCall,
  text: ModelText,
  model: ServedModel,
  prompt: PreparedPrompt,
): OutputParser | null {
  const format = outputFormatOf(text, model)
  const form = guidedForm(call, format, model, prompt)
  const answerParser = isForcedCall(call) ? createForcedCallParser() : null
  if (form === null) return answerParser
  const { thought, calls } = form
  const tools = call.tools.map((tool) => tool.function)
  const callParser =
    calls.length === 0 || format.toolCalls === null
      ? null
      : createToolCallParser(format.toolCalls, tools, true)
  return new GuidedOutputParser({ thought, calls, callParser, answerParser })
}
