/**
 * What a writer of replies needs to know about the call that it answers.
 */
import type { GenerationOptions, ReplyHead, ReplyUsage, TokenFaces } from '../api/index.ts'
import { isQueryOnly, nvextJson } from '../api/index.ts'
import { usageOf } from '../request/index.ts'
import type { ChoiceEnd, ChoiceSink } from './choice-sink.ts'
import type { PreparedPrompt } from './prompt.ts'

export interface ReplyContext {
  readonly head: ReplyHead
  readonly call: GenerationOptions
  readonly prompts: readonly PreparedPrompt[]
  readonly faces: TokenFaces
  /** Text before the generated one, per prompt (`echo`); empty otherwise. */
  readonly echoes: readonly string[]
  readonly nowMs: () => number
  readonly createToolCallId: () => string
}

export function promptIndexOf(context: ReplyContext, choiceIndex: number): number {
  return Math.floor(choiceIndex / context.call.choiceCount)
}

/** A prompt counts once, however many choices it has. */
export function usageOfChoices(context: ReplyContext, choices: readonly ChoiceSink[]): ReplyUsage {
  let promptTokens = 0
  let completionTokens = 0
  let reasoningTokens = 0
  let cachedTokens: number | undefined
  for (const prompt of context.prompts) promptTokens += prompt.tokenIds.length
  choices.forEach((choice, index) => {
    completionTokens += choice.tokenCount
    reasoningTokens += choice.reasoningTokens
    const isFirstOfPrompt = index % context.call.choiceCount === 0
    if (isFirstOfPrompt && choice.cachedTokens !== undefined) {
      cachedTokens = (cachedTokens ?? 0) + choice.cachedTokens
    }
  })
  return { ...usageOf(promptTokens, completionTokens, cachedTokens), reasoningTokens }
}

/** `nvext` of the reply at the end of a choice: what the client listed in `extra_fields`. */
export function nvextOfChoice(
  context: ReplyContext,
  choice: ChoiceSink,
  choiceIndex: number,
  end: ChoiceEnd | null,
): string | undefined {
  const { call } = context
  const asked = new Set(call.nvext.extra_fields)
  const isQuery = isQueryOnly(call.nvext)
  if (asked.size === 0 && !isQuery) return undefined
  const { trail } = choice
  const engineData = end?.engineData
  return nvextJson({
    ...((asked.has('worker_id') || isQuery) && trail.isRouted ? { workerId: trail.slots } : {}),
    ...(asked.has('token_ids') || isQuery
      ? { tokenIds: context.prompts[promptIndexOf(context, choiceIndex)]?.tokenIds ?? [] }
      : {}),
    ...(end === null || isQuery
      ? {}
      : {
          ...(asked.has('timing')
            ? { timing: trail.timing(context.nowMs(), end.completionTokens) }
            : {}),
          ...(asked.has('stop_reason') && end.stopReason !== undefined
            ? { stopReason: end.stopReason }
            : {}),
          ...(asked.has('completion_token_ids')
            ? { completionTokenIds: end.completionTokenIds }
            : {}),
          ...(asked.has('engine_data') && engineData !== undefined ? { engineData } : {}),
          ...(asked.has('routed_experts') && hasRoutedExperts(engineData)
            ? { routedExperts: engineData.routed_experts }
            : {}),
        }),
  })
}

function hasRoutedExperts(data: unknown): data is { readonly routed_experts: unknown } {
  return typeof data === 'object' && data !== null && 'routed_experts' in data
}

/** `parallel_tool_calls: false`: only the first call is shown. */
export function allowsSeveralCalls(call: GenerationOptions): boolean {
  return !('parallelToolCalls' in call) || call.parallelToolCalls !== false
}
