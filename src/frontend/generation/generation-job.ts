/**
 * The parts of generating calls: what an endpoint provides, and what all endpoints are given.
 */
import { sleep } from '../../base/index.ts'
import type { BackgroundResponses } from '../state/background-responses.ts'
import type { GenerationOptions } from '../../api/index.ts'
import { hasRemoteTokenizer } from '../../request/index.ts'
import type { GuidedDecoding } from '../../request/index.ts'
import type { ModelText, OutputParser } from '../../text/index.ts'
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

/** Answers a generating call; reports everything to its record. */
export type Generator = (
  deps: GenerationDeps,
  http: HttpRequest,
  record: CallRecord,
) => Promise<HttpReply>

export interface GenerationJob<Call extends GenerationOptions> {
  readonly call: Call
  readonly writers: ReplyWriters
  /** The field that contains the prompt, for error messages. */
  readonly promptParam: 'messages' | 'prompt' | 'input' | 'token_ids'
  /** Returns a promise only when there is something to wait for. */
  prompts(text: ModelText, offLoop: OffLoop): PreparedPrompt[] | Promise<PreparedPrompt[]>
  /** Text before the generated text, per prompt. */
  echoes?(prompts: readonly PreparedPrompt[], text: ModelText): readonly string[]
  /** The known part of the next turn's prompt, given the answer to this one. */
  nextTurn?(answer: string, text: ModelText, offLoop: OffLoop): Promise<PreparedPrompt>
  /** Called once per choice. */
  parser?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): OutputParser | null
  /**
   * The form of guided output for this model; called only when guided output was requested. Keywords of tools that are
   * not enforced are added to `relaxed`.
   */
  guided?(
    guided: GuidedDecoding,
    text: ModelText,
    model: ServedModel,
    prompt: PreparedPrompt,
    relaxed: Set<string>,
  ): GuidedDecoding
  /** The grammar of calls that may replace an answer; called only for an engine that draws calls at random. */
  drawableCalls?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): string | undefined
  /** Null: the model does not think, or thinking is not limited. */
  thinkingLimit?(text: ModelText, model: ServedModel, prompt: PreparedPrompt): ThinkingLimit | null
}

export function offLoopOf(
  deps: GenerationDeps,
  model: ServedModel,
  { tokenizer }: ModelText,
): OffLoop {
  return {
    encode: (text, options, charactersOfAll = text.length) => {
      const [card] = model.cards
      if (card === undefined) return undefined
      const isShort = charactersOfAll < deps.bounds.offLoopCharacters
      if (isShort && !hasRemoteTokenizer(card)) return undefined
      return deps.encodeOffLoop?.(card, tokenizer, text, options)
    },
    refuse: () => undefined,
    pause: () => sleep(deps.clock, 0),
  }
}
