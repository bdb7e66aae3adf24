/**
 * What a writer of replies needs to know about its call.
 */
import type { Clock, Random } from '../../base/index.ts'
import type { GenerationOptions, ReplyHead, ReplyUsage, TokenTexts } from '../../api/index.ts'
import { isQueryOnly, nvextJson } from '../../api/index.ts'
import { usageOf } from '../../request/index.ts'
import type { Usage } from '../../request/index.ts'
import type { ChoiceEnd, ChoiceSink } from './choice-sink.ts'
import type { Tokenizer } from '../../text/index.ts'
import type { PreparedPrompt } from '../prompt/prompt.ts'
import { tokenTexts } from '../prompt/token-texts.ts'

/**
 * The part of a call that its reply depends on. A running stream keeps only this part, and not the messages, tools and
 * sampling parameters.
 */
interface RepliedCall extends Pick<
  GenerationOptions,
  'stream' | 'includeUsage' | 'continuousUsage' | 'choiceCount' | 'output' | 'tokensAsIds' | 'nvext'
> {
  readonly showsTokenIds: boolean
  readonly bestOf: number | undefined
  readonly hidesLogprobs: boolean
  readonly showsPromptLogprobs: boolean
  /** False with `parallel_tool_calls: false`: only the first call is shown. */
  readonly allowsSeveralCalls: boolean
  /** Names of the tools whose input is shown as text. */
  readonly customTools: ReadonlySet<string>
}

export function repliedCall(call: GenerationOptions): RepliedCall {
  return {
    stream: call.stream,
    includeUsage: call.includeUsage,
    continuousUsage: call.continuousUsage,
    choiceCount: call.choiceCount,
    output: call.output,
    tokensAsIds: call.tokensAsIds,
    nvext: call.nvext,
    showsTokenIds: call.showsTokenIds === true,
    bestOf: call.bestOf,
    hidesLogprobs: call.hidesLogprobs === true,
    showsPromptLogprobs: call.showsPromptLogprobs === true,
    allowsSeveralCalls: !('parallelToolCalls' in call) || call.parallelToolCalls !== false,
    customTools: 'customTools' in call && call.customTools instanceof Set ? call.customTools : NONE,
  }
}

const NONE: ReadonlySet<string> = new Set()

export interface ReplyContext {
  readonly head: ReplyHead
  readonly call: RepliedCall
  /** Without their texts, because a stream may run for hours. */
  readonly prompts: readonly Pick<PreparedPrompt, 'tokenIds'>[]
  readonly tokenizer: Tokenizer
  /** Text before the generated one, per prompt (`echo`); empty otherwise. */
  readonly echoes: readonly string[]
  readonly clock: Clock
  readonly random: Random
}

/** For log-probabilities. */
export function tokenTextsOf({ tokenizer, call }: ReplyContext): TokenTexts {
  return tokenTexts(tokenizer, call.tokensAsIds)
}

export function promptIndexOf(context: ReplyContext, choiceIndex: number): number {
  return Math.floor(choiceIndex / context.call.choiceCount)
}

/**
 * Prompt, completion and cached tokens of one choice. Cached tokens are limited to the prompt's length,
 * whatever the engine reports.
 */
export function usageOfChoice(context: ReplyContext, choice: ChoiceSink, index: number): Usage {
  const ofPrompt = context.prompts[promptIndexOf(context, index)]?.tokenIds.length ?? 0
  const promptTokens = choice.promptTokens ?? ofPrompt
  const { cachedTokens } = choice
  return cachedTokens === undefined
    ? usageOf(promptTokens, choice.tokenCount)
    : usageOf(promptTokens, choice.tokenCount, Math.max(0, Math.min(cachedTokens, promptTokens)))
}

/** A prompt counts once, however many choices it has. */
export function usageOfChoices(context: ReplyContext, choices: readonly ChoiceSink[]): ReplyUsage {
  let promptTokens = 0
  let completionTokens = 0
  let reasoningTokens = 0
  let cachedTokens: number | undefined
  choices.forEach((choice, index) => {
    const usage = usageOfChoice(context, choice, index)
    completionTokens += usage.completionTokens
    reasoningTokens += choice.reasoningTokens
    if (index % context.call.choiceCount !== 0) return
    promptTokens += usage.promptTokens
    if (usage.cachedTokens !== undefined) cachedTokens = (cachedTokens ?? 0) + usage.cachedTokens
  })
  return { reasoningTokens, ...usageOf(promptTokens, completionTokens, cachedTokens) }
}

/** True when the reply has an `nvext`: the client listed fields, or asks only where the request would run. */
export function hasNvext({ nvext }: RepliedCall): boolean {
  return (nvext.extra_fields?.length ?? 0) > 0 || isQueryOnly(nvext)
}

/** `nvext` at the end of a choice: the fields that the client listed in `extra_fields`. */
export function nvextOfChoice(
  context: ReplyContext,
  choice: ChoiceSink,
  choiceIndex: number,
  end: ChoiceEnd | null,
  newTokenIds: readonly number[] = [],
): string | undefined {
  const { call } = context
  const { timeline } = choice
  if (timeline === null) return undefined
  const asked = new Set(call.nvext.extra_fields)
  const isQuery = isQueryOnly(call.nvext)
  const engineData = end?.engineData
  return nvextJson({
    ...((asked.has('worker_id') || isQuery) && timeline.isRouted
      ? { workerId: timeline.slots }
      : {}),
    ...(asked.has('token_ids') || isQuery
      ? { tokenIds: context.prompts[promptIndexOf(context, choiceIndex)]?.tokenIds ?? [] }
      : {}),
    ...(end === null && newTokenIds.length > 0 && asked.has('completion_token_ids')
      ? { completionTokenIds: newTokenIds }
      : {}),
    ...(end === null || isQuery
      ? {}
      : {
          ...(asked.has('timing')
            ? { timing: timeline.timing(context.clock.nowMs(), end.completionTokens) }
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

/** The ids of one chunk of a stream; undefined: they were not requested, or there are none. */
export function nvextOfTokens(
  { call }: ReplyContext,
  completionTokenIds: readonly number[],
): string | undefined {
  if (completionTokenIds.length === 0) return undefined
  if (call.nvext.extra_fields?.includes('completion_token_ids') !== true) return undefined
  return nvextJson({ completionTokenIds })
}

function hasRoutedExperts(data: unknown): data is { readonly routed_experts: unknown } {
  return typeof data === 'object' && data !== null && 'routed_experts' in data
}
