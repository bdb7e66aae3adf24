/**
 * The simulated engine as an `Engine`: the scheduler of the simulator, driven by a live clock.
 *
 * Roles: aggregated and decode workers generate; a prefill worker ends after the prompt and returns a result that
 * lets a decode worker skip it. A decode worker without such a result computes the prompt itself.
 */
import { BatonError, InFlightSet, sleep } from '../../base/index.ts'
import type { Clock, WorkerId } from '../../base/index.ts'
import type { Chunk, EngineConfig, GenerateRequest, GuidedDecoding } from '../../request/index.ts'
import type { KvEvent } from '../../kv/index.ts'
import type { Engine, EngineObserver } from '../../engine/index.ts'
import type { EngineMetric } from '../../engine/index.ts'
import type { GenerateContext } from '../../engine/index.ts'
import { metricsOfLoad } from '../../engine/index.ts'
import { blockContent } from '../blocks/block-content.ts'
import type { BlockContent } from '../blocks/block-content.ts'
import { hashBlockOfOutput, hashPrompt } from '../blocks/block-hashing.ts'
import { createSimEngineConfig, faultOf } from './sim-options.ts'
import type { SimEngineConfig, SimEngineOptions } from './sim-options.ts'
import { simEmbedding } from './sim-embedding.ts'
import { decodeFromRoom, prefillInRoom } from './sim-bootstrap.ts'
import { SimOutput } from './sim-output.ts'
import { SimRank } from './sim-rank.ts'
import { SimReports } from './sim-reports.ts'
import type { SimSequence } from '../scheduler/sim-sequence.ts'
import { SimStream } from './sim-stream.ts'
import type { SimStreamHost } from './sim-stream.ts'
import { SimTokens } from './sim-tokens.ts'
import { SimTurns } from './sim-turns.ts'

const DEFAULT_TOKENS = [1000, 2000] as const
const NO_HASHES = new Uint32Array(0)

export class SimEngine implements Engine, SimStreamHost {
  readonly config: SimEngineConfig
  readonly controls: NonNullable<Engine['controls']>
  readonly #options: SimEngineOptions
  readonly #clock: Clock
  readonly #tokens: SimTokens
  readonly #turns: SimTurns | null
  readonly #ranks: readonly SimRank<SimStream>[]
  readonly #reports: SimReports
  readonly #live = new InFlightSet<SimStream>()
  #state: 'new' | 'running' | 'closed' = 'new'
  #nextRank = 0
  readonly #onIdle: (() => void)[] = []
  /** Number of computed prompts that wait for decode in a bootstrap room. */
  #inRooms = 0

  constructor(options: SimEngineOptions) {
    this.#options = options
    this.#clock = options.clock
    this.config = createSimEngineConfig(options)
    this.#tokens = new SimTokens(options.seed ?? 0, options.tokenRange ?? DEFAULT_TOKENS)
    this.#turns = options.turns === undefined ? null : new SimTurns(options.turns)
    this.#reports = new SimReports(options, this.config)
    const { dataParallelSize, scheduler } = this.config
    const hasher = (sequence: SimSequence<SimStream>, block: number): void =>
      this.#hashBlock(sequence, block)
    const { ahead, onStep } = options
    const reader = this.#reports.hasBroadcast ? this.#contentOf : null
    this.#ranks = Array.from(
      { length: dataParallelSize },
      (_, rank) =>
        new SimRank(rank, {
          clock: options.clock,
          config: scheduler,
          hasher,
          reader,
          ahead,
          onStep,
        }),
    )
    this.controls = {
      clear_kv_blocks: async () => {
        for (const rank of this.#ranks) rank.clearCache()
        return { status: 'ok' }
      },
    }
  }

  async start(_workerId: WorkerId): Promise<EngineConfig> {
    if (this.#state !== 'new')
      throw new BatonError('backend.engine_shutdown', 'the engine was already started or closed')
    const { startupMs, failStart } = this.#options
    if (startupMs !== undefined && startupMs > 0) await sleep(this.#clock, startupMs)
    if (failStart !== undefined)
      throw new BatonError(failStart, 'start failed as configured (failStart)')
    const config = {
      ...this.#describe(),
      ...(await this.#listen()),
      ...(await this.#reports.listen()),
    }
    if (this.#reports.hasBroadcast) for (const rank of this.#ranks) rank.observe(this.#reports)
    this.#state = 'running'
    return config
  }

  generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<Chunk> {
    const open = (): SimStream => new SimStream(request, context, this, this.#tokens)
    const { bootstrap } = this.#options
    const at = request.bootstrap
    if (at === undefined || bootstrap === undefined || this.config.mode === 'agg') return open()
    const meeting = {
      clock: this.#clock,
      timeoutMs: this.config.handOffTimeoutMs,
      request,
      context,
    }
    if (this.config.mode === 'decode')
      return decodeFromRoom(open, { ...meeting, meet: (gone) => bootstrap.join(at, gone) })
    const meet = async (gone: AbortSignal): Promise<void> => {
      this.#inRooms += 1
      await bootstrap.complete(at.room, gone).finally(() => (this.#inRooms -= 1))
    }
    return prefillInRoom(open(), { ...meeting, meet })
  }

  /** Takes as long as the prefill of the prompt. */
  async embed(request: GenerateRequest, context: GenerateContext): Promise<Float32Array> {
    for await (const chunk of this.generate(request, context)) {
      if (chunk.finish !== undefined) break
    }
    return simEmbedding(request.tokenIds, this.#options.seed ?? 0, this.config.embeddingLength)
  }

  abort(requestId: string): void {
    for (const stream of this.#live.values()) {
      if (stream.request.requestId !== requestId) continue
      if (stream.sequence !== null) this.#ranks[stream.opened!.rankIndex]!.cancel(stream.sequence)
    }
  }

  async drain(): Promise<void> {
    const { drainMs } = this.#options
    if (drainMs !== undefined && drainMs > 0) await sleep(this.#clock, drainMs)
    if (this.#live.size === 0) return
    await new Promise<void>((resolve) => {
      this.#onIdle.push(resolve)
    })
  }

  /** Call when the `SimTiming` that was passed in has changed. */
  recast(): void {
    for (const rank of this.#ranks) rank.recast()
  }

  isQuiescent(): boolean {
    return this.#live.size === 0 && this.#inRooms === 0
  }

  async cleanup(): Promise<void> {
    this.#state = 'closed'
    const error = new BatonError('backend.engine_shutdown', 'the engine has been shut down')
    for (const stream of this.#live.values()) stream.fail(error)
    for (const rank of this.#ranks) rank.close()
    await this.#options.bootstrap?.close()
    await this.#reports.close()
  }

  healthCheckPayload(): GenerateRequest {
    return {
      requestId: 'health',
      model: this.#options.model,
      tokenIds: Uint32Array.of(1),
      sampling: { temperature: 0 },
      stop: { maxTokens: 1, ignoreEos: true },
      output: {},
      eosTokenIds: [],
      routing: {},
      isProbe: true,
    }
  }

  metrics(): readonly EngineMetric[] {
    return this.#ranks.flatMap(({ scheduler }, rank) => [
      ...metricsOfLoad(scheduler.load(rank)),
      ...(scheduler.tiers?.metrics(rank) ?? []),
    ])
  }

  /** Absent with offload tiers, because the worker then has to keep the records. */
  get heldKv(): ((dpRank: number) => readonly KvEvent[]) | undefined {
    if (this.config.scheduler.offload !== null) return undefined
    return (dpRank) => (this.config.mode === 'decode' ? [] : (this.#ranks[dpRank]?.held() ?? []))
  }

  observe(observer: EngineObserver): void {
    this.#reports.observe(observer)
    for (const rank of this.#ranks) rank.observe(this.#reports)
  }

  open(stream: SimStream): void {
    if (this.#state !== 'running')
      throw new BatonError('backend.engine_shutdown', 'the engine is not running')
    const { request } = stream
    const isEmbedding = request.kind === 'embed'
    const isPrefillOnly = this.config.mode === 'prefill' || isEmbedding
    const promptTokens = request.tokenIds.length
    if (promptTokens === 0)
      throw new BatonError('backend.invalid_argument', 'the prompt has no tokens')
    const script = this.#scriptOf(request, isPrefillOnly)
    const wanted = request.stop.maxTokens ?? this.config.defaultOutputTokens
    const available = this.config.contextLength - promptTokens
    const turnTokens = script === undefined ? this.#turnTokens(request) : Infinity
    const lengthMax = Math.min(wanted, available, turnTokens)
    const outputTokens = isPrefillOnly ? 0 : lengthMax
    if (!isPrefillOnly && available < 1) this.#refuse('context', promptTokens)
    const rankIndex = this.#rankOf(request)
    const rank = this.#ranks[rankIndex]!
    const refusal = rank.scheduler.refusal(promptTokens, outputTokens)
    if (refusal !== null) this.#refuse(refusal, promptTokens)

    const output = new SimOutput({
      tokens: this.#tokens,
      request,
      lengthMax,
      endsByItself:
        turnTokens === lengthMax || (request.stop.maxTokens === undefined && wanted <= available),
      script,
      // Simulated reasoning would violate the constraint.
      reasoning: request.sampling.guided === undefined ? this.#options.reasoning : undefined,
    })
    const fault = faultOf(this.#options, request)
    stream.opened = { rankIndex, output, fault, isPrefillOnly }
    this.#live.add(stream)
    const { blockTokens } = this.config.scheduler
    const prefixCaching = this.config.scheduler.prefixCaching && !isEmbedding
    stream.sequence = rank.submit({
      owner: stream,
      promptTokens,
      promptHashes: prefixCaching ? hashPrompt(request, blockTokens) : NO_HASHES,
      outputTokens: isPrefillOnly ? 0 : output.outputTokens,
      isTransferred: this.config.mode === 'decode' && this.#hasPrompt(request),
      ...(request.routing.priority === undefined ? {} : { priority: request.routing.priority }),
      ...(fault?.kind === 'slow' ? { restMs: fault.restMs } : {}),
    })
  }

  release(stream: SimStream): void {
    if (stream.place === -1) return
    this.#live.delete(stream)
    const { sequence, opened } = stream
    if (opened !== null) this.#ranks[opened.rankIndex]!.flush()
    if (sequence !== null && opened !== null && sequence.state !== 'ended')
      this.#ranks[opened.rankIndex]!.cancel(sequence)
    if (this.#live.size > 0) return
    for (const resolve of this.#onIdle.splice(0)) resolve()
  }

  #scriptOf(request: GenerateRequest, isPrefillOnly: boolean): ArrayLike<number> | undefined {
    const { scriptFor, guidedScript } = this.#options
    const script = scriptFor?.(request)
    if (script !== undefined || isPrefillOnly) return script
    const guided = request.sampling.guided ?? this.#callOf(request)
    if (guided === undefined) return undefined
    if (guidedScript === undefined)
      throw new BatonError(
        'backend.invalid_argument',
        'this engine does not support structured output',
      )
    return guidedScript({ ...request, sampling: { ...request.sampling, guided } })
  }

  /** For a turn with a tool call, a text of the grammar in the request is generated. */
  #callOf(request: GenerateRequest): GuidedDecoding | undefined {
    const gbnf = request.extra?.['callGrammar']
    if (typeof gbnf !== 'string' || this.#turns === null) return undefined
    const calls = this.#turns.calls(this.#tokens, this.#tokens.streamOf(request))
    return calls ? { kind: 'grammar', gbnf } : undefined
  }

  /** Number of tokens left in this turn; Infinity: it ends at a limit. */
  #turnTokens(request: GenerateRequest): number {
    const { stop, resumedTokens = 0 } = request
    if (this.#turns === null || stop.ignoreEos === true) return Infinity
    const whole = this.#turns.lengthOf(this.#tokens, this.#tokens.streamOf(request))
    return Math.max(1, Math.max(whole, stop.minTokens ?? 0) - resumedTokens)
  }

  get #drawsCalls(): boolean {
    return this.#options.guidedScript !== undefined && this.#turns?.callsTools === true
  }

  /** True if a prefill worker computes the prompt. */
  #hasPrompt({ prefillResult, bootstrap }: GenerateRequest): boolean {
    return (
      prefillResult !== undefined ||
      (bootstrap !== undefined && this.#options.bootstrap !== undefined)
    )
  }

  async #listen(): Promise<Partial<EngineConfig>> {
    const { bootstrap, bootstrapPort } = this.#options
    if (this.config.mode !== 'prefill') return {}
    if (bootstrap === undefined || bootstrapPort === undefined) return {}
    const { host, port } = await bootstrap.listen(bootstrapPort)
    return { bootstrapHost: host, bootstrapPort: port }
  }

  #rankOf(request: GenerateRequest): number {
    const count = this.#ranks.length
    const { routing } = request
    const asked =
      this.config.mode === 'prefill' ? (routing.prefillDpRank ?? routing.dpRank) : routing.dpRank
    if (asked === undefined) {
      this.#nextRank = (this.#nextRank + 1) % count
      return this.#nextRank
    }
    if (asked >= 0 && asked < count) return asked
    throw new BatonError('backend.invalid_argument', `there is no data-parallel rank ${asked}`)
  }

  #refuse(why: 'context' | 'pool' | 'budget', promptTokens: number): never {
    const { contextLength, scheduler } = this.config
    const limits = {
      context: `the context holds ${contextLength} tokens`,
      pool: `the KV cache holds ${scheduler.blockCount * scheduler.blockTokens} tokens`,
      budget: `a step holds ${scheduler.tokenBudget} tokens and chunked prefill is off`,
    }
    throw new BatonError(
      'request.context_length_exceeded',
      `the prompt of ${promptTokens} tokens does not fit: ${limits[why]}`,
      { data: { promptTokens, contextLength } },
    )
  }

  #hashBlock(sequence: SimSequence<SimStream>, block: number): void {
    const { request, opened } = sequence.owner
    // Without a hash a block is not shared: an embedding leaves no cached prefix.
    if (request.kind === 'embed') return
    const { blockTokens } = this.config.scheduler
    hashBlockOfOutput(sequence.hashes, request, blockTokens, block, opened!.output)
  }

  readonly #contentOf = (
    { owner: { request, opened } }: SimSequence<SimStream>,
    block: number,
  ): BlockContent => blockContent(request, this.config.scheduler.blockTokens, block, opened!.output)

  #describe(): EngineConfig {
    const { contextLength, dataParallelSize, scheduler } = this.config
    const { model, servedModelName, modelPath } = this.#options
    return {
      model,
      ...(servedModelName === undefined ? {} : { servedModelName }),
      ...(modelPath === undefined ? {} : { modelPath }),
      contextLength,
      kvCacheBlockSize: scheduler.blockTokens,
      totalKvBlocks: scheduler.blockCount,
      ...(scheduler.maxSequences === Infinity ? {} : { maxNumSeqs: scheduler.maxSequences }),
      ...(scheduler.tokenBudget === Infinity ? {} : { maxNumBatchedTokens: scheduler.tokenBudget }),
      dataParallelSize,
      dataParallelStartRank: 0,
      embeddingLength: this.config.embeddingLength,
      features: [
        'logprobs',
        'prompt_logprobs',
        'seed',
        'embeddings',
        'logit_bias',
        ...(this.#options.guidedScript === undefined
          ? []
          : (['guided', 'gbnf', 'drawn_texts'] as const)),
        ...(this.#drawsCalls ? (['drawn_calls'] as const) : []),
      ],
    }
  }
}
