/**
 * What generating calls are made of: what an endpoint brings, and what all of them are given.
 */
import type { BackgroundResponses } from '../state/background-responses.ts'
import type { GenerationOptions } from '../../api/index.ts'
import { hasRemoteTokenizer } from '../../request/index.ts'
import type { GuidedDecoding } from '../../request/index.ts'
import type { EncodeOptions, ModelText, OutputParser } from '../../text/index.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import type { CallRecord } from './call-record.ts'
import type { FrontendLimits, FrontendOptions } from './frontend-options.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import type { OffLoop, PreparedPrompt } from '../prompt/prompt.ts'
import type { ReplyWriters } from '../reply/reply-writer.ts'
import type { ServedModel } from '../models/served-model.ts'
import type { ThinkingLimit } from './thinking-limit.ts'

export interface GenerationDeps extends FrontendOptions {
  readonly registry: ModelRegistry
  readonly bounds: FrontendLimits
  readonly background: BackgroundResponses
}

/** Answers a call that generates; its record is told of all that happens. */
export type Generator = (
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
) => Promise<HttpReply>

export interface GenerationJob<Call extends GenerationOptions> {
  readonly call: Call
  readonly writers: ReplyWriters
  /** The field that holds the prompt, for a refusal. */
  readonly promptParam: 'messages' | 'prompt' | 'input' | 'token_ids'
  /** A promise only when there is something to wait for. */
  prompts(text: ModelText, offLoop: OffLoop): PreparedPrompt[] | Promise<PreparedPrompt[]>
  /** Text that precedes the generated one, per prompt. */
  echoes?(prompts: readonly PreparedPrompt[], text: ModelText): readonly string[]
  /** The prompt of the next turn as far as it is known, when this one was answered so. */
  nextTurn?(answer: string, text: ModelText, offLoop: OffLoop): Promise<PreparedPrompt>
  /** The choices have begun, and `nextTurn` will not be called: what only prompts are made of may go. */
  forgetPrompt?(): void
  /** Called once per choice. */
  parser?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): OutputParser | null
  /** The shape of the output as this model writes it; called only when a shape was asked for. */
  guided?(
    guided: GuidedDecoding,
    text: ModelText,
    model: ServedModel,
    prompt: PreparedPrompt,
  ): GuidedDecoding
  /** The grammar of the calls that may stand instead of an answer; called only for an engine that calls at random. */
  drawableCalls?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): string | undefined
  /** Null: the model does not think, or nothing bounds it. */
  thinkingLimit?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): ThinkingLimit | null
}

export function offLoopOf(deps: GenerationDeps, model: ServedModel): OffLoop {
  return (text: string, options: EncodeOptions, charactersOfAll = text.length) => {
    const [card] = model.cards
    if (card === undefined) return undefined
    const isShort = charactersOfAll < deps.bounds.offLoopCharacters
    if (isShort && !hasRemoteTokenizer(card)) return undefined
    return deps.encodeOffLoop?.(card, text, options)
  }
}
