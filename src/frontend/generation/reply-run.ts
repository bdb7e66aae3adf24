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
import { allowsSeveralCalls, promptIndexOf, usageOfChoices } from '../reply/reply-context.ts'
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
  readonly #options: Omit<ReplyRunOptions<Call>, 'prompts'>
  /** Kept until the choices have started. */
  #prompts: readonly PreparedPrompt[]
  readonly #streamed: StreamedWriter | null
  readonly #whole: WholeWriter | null
  readonly #writer: ReplyWriter
  readonly #exchange: Exchange
  #choices: readonly ChoiceSink[] = []
  #keeper: AnswerKeeper | null = null

  constructor(options: ReplyRunOptions<Call>) {
    const { context, deps, job, model, prompts, record, requests, signal, text } = options
    const { stream } = job.call
    this.#options = { context, deps, job, model, record, requests, signal, text }
    this.#prompts = prompts
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

  /** Resolves when the status is decided; rejects with the error that becomes the reply. */
  async answer(): Promise<HttpReply> {
    const { job, record, requests } = this.#options
    this.#choices = requests.map((_, index) => this.#createChoice(index))
    const migrating = this.#migratingService()
    record.onCutOff = (error) => this.#exchange.cutOff(error)
    const serviceOf = (index: number): RequestService => this.#serviceOf(index, migrating)
    const decided = this.#exchange.run(serviceOf, requests, this.#choices)
    // A stream may run for hours and needs only its prompt's ids from here on, not the texts.
    this.#prompts = []
    if (this.#keeper === null) job.forgetPrompt?.()
    await decided
    return this.#streamed === null
      ? { status: 200, headers: JSON_HEADERS, body: this.#whole?.body() ?? '' }
      : { status: 200, headers: STREAM_HEADERS, body: this.#streamed.stream }
  }

  began(): void {
    this.#options.record.firstToken()
    this.#writer.began()
  }

  phase(event: PhaseEvent): void {
    this.#options.record.tell(event)
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
    const { context, record } = this.#options
    this.#reportUnknownToken()
    if (error !== null) this.#streamed?.stream.abandon()
    // Until the status is decided `answer` throws the error.
    if (error?.code === 'runtime.internal' && this.#exchange.isDecided) {
      record.tell({ kind: 'faulted', error })
    }
    record.ended({
      status: error !== null && !this.#exchange.isDecided ? error.row.httpStatus : 200,
      error,
      usage: usageOfChoices(context, this.#choices),
      choices: this.#choices.length,
    })
    if (error === null) this.#speculate()
  }

  /** An engine with another vocabulary than the tokenizer: the answer lacks text, which nothing else shows. */
  #reportUnknownToken(): void {
    const { model, record, text } = this.#options
    const id = takeUnknownToken(text.tokenizer)
    if (id === null) return
    const { vocabSize } = text.tokenizer
    record.tellOfBackground({
      kind: 'backgroundFailed',
      what: 'detokenization',
      errorCode: 'backend.contract_violation',
      message: `a worker of ${model.name} generated the token id ${id}, which has no text: the tokenizer has ${vocabSize} tokens; reported once`,
    })
  }

  #promptOf(choiceIndex: number): PreparedPrompt | undefined {
    return this.#prompts[promptIndexOf(this.#options.context, choiceIndex)]
  }

  #createChoice(index: number): ChoiceSink {
    const { job, model, record, text } = this.#options
    const { call } = job
    const prompt = this.#promptOf(index)
    const parser = prompt === undefined ? null : (job.parser?.(text, model, prompt) ?? null)
    const choice = new ChoiceSink({
      owner: this.#exchange,
      output: this.#keeping(this.#writer.createOutput(index)),
      detokenizer: new Detokenizer(text.tokenizer, {
        skipSpecialTokens: call.output.skipSpecialTokens ?? true,
        // Control tokens that the parser needs to see as text.
        keepTokens: parser?.markers ?? [],
      }),
      stops: stopStringsOf(call.stop),
      parser: parser ?? undefined,
      timeline: new ReplyTimeline(record.receivedMs, record.receivedEpochMs),
      endsAtSecondCall: !allowsSeveralCalls(call),
      keepTokenIds:
        call.keepsTokenIds === true ||
        (call.nvext.extra_fields?.includes('completion_token_ids') ?? false),
    })
    this.#writer.addChoice(choice)
    return choice
  }

  /** Keeps the answer's text only when the next turn will be prefilled. */
  #keeping(output: ChoiceOutput): ChoiceOutput {
    const { job, requests } = this.#options
    if (job.call.nvext.agent_hints?.speculative_prefill !== true) return output
    if (requests.length !== 1 || job.nextTurn === undefined) return output
    this.#keeper = new AnswerKeeper(output)
    return this.#keeper
  }

  #speculate(): void {
    const { deps, job, model, record, requests, text } = this.#options
    const [request] = requests
    if (this.#keeper === null || request === undefined) return
    const next = job.nextTurn?.(this.#keeper.answer, text, offLoopOf(deps, model, text))
    if (next !== undefined) prefillNextTurn(model, request, next, record.tellOfBackground)
  }

  #migratingService(): RequestService {
    const { deps, model, text } = this.#options
    return createMigratingService(model.router.service, {
      limit: deps.bounds.migrationLimit,
      waitMs: deps.bounds.migrationWaitMs,
      maxSequenceTokens: deps.bounds.migrationMaxSequenceTokens,
      encode: (generated) => text.tokenizer.encode(generated, { special: true }),
      clock: deps.clock,
      onMigrated: this.#options.record.tell,
    })
  }

  /**
   * Layers from the outside: thinking limit, migration, router. A request without output tokens stays in the
   * frontend.
   */
  #serviceOf(index: number, migrating: RequestService): RequestService {
    const { job, model, requests, text } = this.#options
    if (requests[index]?.stop.maxTokens === 0) {
      const wantsScores = job.call.output.promptLogprobs !== undefined
      return wantsScores ? createPromptOnlyService(migrating) : NOTHING_TO_GENERATE
    }
    const prompt = this.#promptOf(index)
    const limit = prompt === undefined ? null : job.thinkingLimit?.(text, model, prompt)
    return limit == null ? migrating : createThinkingLimitedService(migrating, limit)
  }
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
