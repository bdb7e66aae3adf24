/**
 * What generating calls are made of: what an endpoint brings, and what all of them are given.
 */
import type { GenerationOptions } from '../api/index.ts'
import type { EncodeOptions, ModelText, OutputParser } from '../text/index.ts'
import type { FrontendLimits, FrontendOptions } from './frontend-options.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { OffLoop, PreparedPrompt } from './prompt.ts'
import type { ReplyWriters } from './reply-writer.ts'
import type { ServedModel } from './served-model.ts'
import type { ThinkingLimit } from './thinking-limit.ts'

export interface GenerationDeps extends FrontendOptions {
  readonly registry: ModelRegistry
  readonly bounds: FrontendLimits
}

export interface GenerationJob<Call extends GenerationOptions> {
  readonly call: Call
  readonly writers: ReplyWriters
  /** The field that holds the prompt, for a refusal. */
  readonly promptParam: 'messages' | 'prompt' | 'input'
  /** A promise only when there is something to wait for. */
  prompts(text: ModelText, offLoop: OffLoop): PreparedPrompt[] | Promise<PreparedPrompt[]>
  /** Text that precedes the generated one, per prompt. */
  echoes?(prompts: readonly PreparedPrompt[], text: ModelText): readonly string[]
  /** The prompt of the next turn as far as it is known, when this one was answered so. */
  nextTurn?(answer: string, text: ModelText, offLoop: OffLoop): Promise<PreparedPrompt>
  /** Called once per choice. */
  parser?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): OutputParser | null
  /** Null: the model does not think, or nothing bounds it. */
  thinkingLimit?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): ThinkingLimit | null
}

export function offLoopOf(deps: GenerationDeps, model: ServedModel): OffLoop {
  return (text: string, options: EncodeOptions, charactersOfAll = text.length) => {
    const [card] = model.cards
    if (charactersOfAll < deps.bounds.offLoopCharacters || card === undefined) return undefined
    return deps.encodeOffLoop?.(card, text, options)
  }
}
