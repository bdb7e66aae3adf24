/**
 * Makes one request per choice: prompts × n. Each has its own id, and its own seed when the client set one.
 */
import type { GenerationOptions } from '../../api/index.ts'
import { annotationValue, given } from '../../api/index.ts'
import type { GenerateRequest, RoutingHints } from '../../request/index.ts'
import type { ModelText } from '../../text/index.ts'
import { outputBudget } from './context-window.ts'
import type { PreparedPrompt } from './prompt.ts'

interface WorkerRequestsOptions {
  readonly requestId: string
  readonly model: string
  readonly call: GenerationOptions
  readonly prompts: readonly PreparedPrompt[]
  readonly text: ModelText
  readonly contextLength: number | undefined
  readonly routing: RoutingHints
  readonly traceparent: string | undefined
  /** The field that contains the prompt, for error messages. */
  readonly promptParam: 'messages' | 'prompt' | 'input' | 'token_ids'
  /** For an engine that draws tool calls at random. */
  readonly callGrammar: string | undefined
}

/** In the order of the choices: all of the first prompt, then all of the second. */
export function workerRequests(options: WorkerRequestsOptions): GenerateRequest[] {
  const { call, prompts, requestId, text } = options
  const budgets = prompts.map((prompt) =>
    outputBudget(
      prompt.tokenIds.length,
      options.contextLength,
      call.stop.maxTokens,
      prompt.param ?? options.promptParam,
    ),
  )
  const choiceCount = prompts.length * call.choiceCount
  const extra = extraOf(call, options.callGrammar)
  return Array.from({ length: choiceCount }, (_, choice): GenerateRequest => {
    const promptIndex = Math.floor(choice / call.choiceCount)
    const nth = choice % call.choiceCount
    const { seed } = call.sampling
    return {
      requestId: choiceCount === 1 ? requestId : `${requestId}-${choice}`,
      model: options.model,
      tokenIds: prompts[promptIndex]?.tokenIds ?? new Uint32Array(0),
      sampling: seed === undefined ? call.sampling : { ...call.sampling, seed: seed + nth },
      stop: withBudget(call.stop, budgets[promptIndex]),
      output: call.output,
      eosTokenIds: call.stop.ignoreEos === true ? [] : text.eosTokenIds,
      routing: options.routing,
      ...given({
        requestTimestampMs: call.nvext.request_timestamp_ms,
        traceparent: options.traceparent,
        extra,
      }),
    }
  })
}

function withBudget(
  conditions: GenerationOptions['stop'],
  maxTokens: number | undefined,
): GenerationOptions['stop'] {
  if (maxTokens === undefined) return conditions
  const stop = { maxTokens, ...conditions }
  stop.maxTokens = maxTokens
  return stop
}

/**
 * Fields for the simulated engine: the recorded output that it replays (`output_replay_id:<key>`), and the
 * calls that it may draw.
 */
function extraOf(
  { nvext }: GenerationOptions,
  callGrammar: string | undefined,
): GenerateRequest['extra'] {
  const outputReplayId = annotationValue(nvext, 'output_replay_id')
  if (outputReplayId === undefined && callGrammar === undefined) return undefined
  return given({ outputReplayId, callGrammar })
}
