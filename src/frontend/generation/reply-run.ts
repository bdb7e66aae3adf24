/**
 * Runs a prepared call: composes choices, exchange, writer and the layers below them.
 */
import { assert } from '../../base/index.ts'
import type { BatonError, CancelSignal } from '../../base/index.ts'
import { annotationEvent } from '../../api/index.ts'
import type { GenerationOptions } from '../../api/index.ts'
import { finishChunk } from '../../request/index.ts'
import type {
  GenerateRequest,
  PhaseEvent,
  RequestService,
  StopConditions,
} from '../../request/index.ts'
import { Detokenizer, StopStrings, takeUnknownToken } from '../../text/index.ts'
import type { ModelText } from '../../text/index.ts'
import { annotationEvents } from '../reply/annotation-events.ts'
import type { CallRecord } from './call-record.ts'
import { ChoiceSink } from '../reply/choice-sink.ts'
import type { ChoiceOutput } from '../reply/choice-sink.ts'
import { Exchange } from './exchange.ts'
import type { ExchangeListener } from './exchange.ts'
import { offLoopOf } from './generation-job.ts'
import type { GenerationDeps, GenerationJob } from './generation-job.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import { createMigratingService } from './migration.ts'
import type { PreparedPrompt } from '../prompt/prompt.ts'
import { hasNvext, promptIndexOf, usageOfChoices } from '../reply/reply-context.ts'
import { STREAM_HEADERS } from '../reply/event-stream.ts'
import type { ReplyContext } from '../reply/reply-context.ts'
import { ReplyTimeline } from '../reply/reply-timeline.ts'
import type { ReplyWriter, StreamedWriter, WholeWriter } from '../reply/reply-writer.ts'
import type { ServedModel } from '../models/served-model.ts'
import { createPromptOnlyService } from './prompt-only.ts'
import { AnswerKeeper, prefillNextTurn } from './speculative-prefill.ts'
import { createThinkingLimitedService } from './thinking-limit.ts'

interface ReplyRunOptions<Call extends GenerationOptions> {
  readonly deps: GenerationDeps
  /** Not the whole request, because a reference to it would keep its body in memory while the stream runs. */
  readonly signal: CancelSignal
  readonly record: CallRecord
  readonly model: ServedModel
  readonly job: GenerationJob<Call>
  readonly context: ReplyContext
  readonly requests: readonly GenerateRequest[]
  readonly prompts: readonly PreparedPrompt[]
  readonly text: ModelText
}

const JSON_HEADERS = { 'content-type': 'application/json' }

/** Sent before the first chunk when no prefill worker took part. */
const BYPASS_EVENT = annotationEvent('x-bypass-remote-prefill', 'true')

export class ReplyRun<Call extends GenerationOptions> implements ExchangeListener {
  readonly #record: CallRecord
  readonly #model: ServedModel
  readonly #context: ReplyContext
  readonly #text: ModelText
  readonly #streamed: StreamedWriter | null
  readonly #whole: WholeWriter | null
  readonly #writer: ReplyWriter
  readonly #exchange: Exchange
  #choices: readonly ChoiceSink[] = []
  /** Prefills the next turn when the answer is complete; null: this was not requested. */
  #speculate: (() => void) | null = null

  private constructor(options: ReplyRunOptions<Call>) {
    const { context, deps, job, model, prompts, record, signal, text } = options
    const { stream } = job.call
    this.#record = record
    this.#model = model
    this.#context = context
    this.#text = text
    this.#streamed = stream
      ? job.writers.streamed(context, annotationEvents(record.requestId, job.call, prompts))
      : null
    this.#whole = stream ? null : job.writers.whole(context)
    const writer = this.#streamed ?? this.#whole
    assert(writer !== null, 'a reply needs a writer')
    this.#writer = writer
    this.#exchange = new Exchange({
      clock: deps.clock,
      limits: deps.bounds,
      signal,
      streamed: stream,
      listener: this,
    })
  }

  /**
   * Resolves when the status is decided; rejects with the error that becomes the reply. A stream may run for hours, so
   * it keeps nothing that only its start needs, such as the texts of its prompt.
   */
  static async answer<Call extends GenerationOptions>(
    options: ReplyRunOptions<Call>,
  ): Promise<HttpReply> {
    const run = new ReplyRun(options)
    await run.#start(options)
    return run.#reply
  }

  #start(options: ReplyRunOptions<Call>): Promise<void> {
    const { record, requests } = options
    this.#choices = requests.map((_, index) => this.#createChoice(options, index))
    const migrating = migratingService(options)
    record.reply = this.#exchange
    const service = (index: number): RequestService => serviceOf(options, index, migrating)
    return this.#exchange.run(service, requests, this.#choices)
  }

  get #reply(): HttpReply {
    return this.#streamed === null
      ? { status: 200, headers: JSON_HEADERS, body: this.#whole?.body() ?? '' }
      : { status: 200, headers: STREAM_HEADERS, body: this.#streamed.stream }
  }

  began(): void {
    this.#record.firstToken()
    this.#writer.began()
  }

  phase(event: PhaseEvent): void {
    this.#record.tell(event)
    if (event.kind === 'routed' && event.bypassesPrefill === true)
      this.#streamed?.stream.write(BYPASS_EVENT)
  }

  completed(): void {
    this.#writer.completed()
  }

  brokeOff(error: BatonError): void {
    this.#writer.brokeOff(error)
  }

  keepAlive(): void {
    this.#writer.keepAlive()
  }

  ended(error: BatonError | null): void {
    const record = this.#record
    this.#reportUnknownToken()
    if (error !== null) this.#streamed?.stream.abandon()
    // Until the status is decided `answer` throws the error.
    if (error?.code === 'runtime.internal' && this.#exchange.isDecided) {
      record.tell({ kind: 'faulted', error })
    }
    record.ended({
      status: error !== null && !this.#exchange.isDecided ? error.row.httpStatus : 200,
      error,
      usage: usageOfChoices(this.#context, this.#choices),
      choices: this.#choices.length,
    })
    if (error === null) this.#speculate?.()
  }

  /** An engine with another vocabulary than the tokenizer: the answer lacks text, which nothing else shows. */
  #reportUnknownToken(): void {
    const { tokenizer } = this.#text
    const id = takeUnknownToken(tokenizer)
    if (id === null) return
    this.#record.tellOfBackground({
      kind: 'backgroundFailed',
      what: 'detokenization',
      errorCode: 'backend.contract_violation',
      message: `a worker of ${this.#model.name} generated the token id ${id}, which has no text: the tokenizer has ${tokenizer.vocabSize} tokens; reported once`,
    })
  }

  #createChoice(options: ReplyRunOptions<Call>, index: number): ChoiceSink {
    const { context, job, model, record, text } = options
    const { call } = job
    const prompt = promptOf(options, index)
    const parser = prompt === undefined ? null : (job.parser?.(text, model, prompt) ?? null)
    const choice = new ChoiceSink({
      owner: this.#exchange,
      output: this.#keeping(options, this.#writer.createOutput(index)),
      detokenizer: new Detokenizer(text.tokenizer, {
        skipSpecialTokens: call.output.skipSpecialTokens ?? true,
        // Control tokens that the parser needs to see as text.
        keepTokens: parser?.markers ?? [],
      }),
      stops: stopStringsOf(call.stop),
      parser: parser ?? undefined,
      timeline: hasNvext(context.call)
        ? new ReplyTimeline(record.receivedMs, record.receivedEpochMs)
        : null,
      endsAtSecondCall: !context.call.allowsSeveralCalls,
      keepTokenIds:
        call.keepsTokenIds === true ||
        (call.nvext.extra_fields?.includes('completion_token_ids') ?? false),
    })
    this.#writer.addChoice(choice)
    return choice
  }

  /** Keeps the answer's text only when the next turn will be prefilled. */
  #keeping(options: ReplyRunOptions<Call>, output: ChoiceOutput): ChoiceOutput {
    const { job, requests } = options
    if (job.call.nvext.agent_hints?.speculative_prefill !== true) return output
    if (requests.length !== 1 || job.nextTurn === undefined) return output
    const keeper = new AnswerKeeper(output)
    this.#speculate = () => speculate(options, keeper.answer)
    return keeper
  }
}

function speculate<Call extends GenerationOptions>(
  { deps, job, model, record, requests, text }: ReplyRunOptions<Call>,
  answer: string,
): void {
  const [request] = requests
  const next = job.nextTurn?.(answer, text, offLoopOf(deps, model, text))
  if (request !== undefined && next !== undefined) prefillNextTurn(model, request, next, record)
}

function migratingService<Call extends GenerationOptions>({
  deps,
  model,
  record,
  text,
}: ReplyRunOptions<Call>): RequestService {
  return createMigratingService(model.router.service, {
    limit: deps.bounds.migrationLimit,
    waitMs: deps.bounds.migrationWaitMs,
    maxSequenceTokens: deps.bounds.migrationMaxSequenceTokens,
    tokenizer: text.tokenizer,
    clock: deps.clock,
    record,
  })
}

/**
 * Layers from the outside: thinking limit, migration, router. A request without output tokens stays in the
 * frontend.
 */
function serviceOf<Call extends GenerationOptions>(
  options: ReplyRunOptions<Call>,
  index: number,
  migrating: RequestService,
): RequestService {
  const { job, model, requests, text } = options
  if (requests[index]?.stop.maxTokens === 0) {
    const wantsScores = job.call.output.promptLogprobs !== undefined
    return wantsScores ? createPromptOnlyService(migrating) : NOTHING_TO_GENERATE
  }
  const prompt = promptOf(options, index)
  const limit = prompt === undefined ? null : job.thinkingLimit?.(text, model, prompt)
  return limit == null ? migrating : createThinkingLimitedService(migrating, limit)
}

function promptOf<Call extends GenerationOptions>(
  { context, prompts }: ReplyRunOptions<Call>,
  choiceIndex: number,
): PreparedPrompt | undefined {
  return prompts[promptIndexOf(context, choiceIndex)]
}

function stopStringsOf(stop: StopConditions): StopStrings | null {
  const texts = stop.ignoreEos === true ? [] : (stop.stop ?? [])
  if (texts.length === 0) return null
  return new StopStrings(texts, {
    includeInOutput: stop.includeStopInOutput ?? false,
    minTokens: stop.minTokens ?? 0,
  })
}

const NOTHING_TO_GENERATE: RequestService = {
  send(_, sink) {
    sink.onChunk(finishChunk('length'))
    return { cancel: () => {} }
  },
}
