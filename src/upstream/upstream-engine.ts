/**
 * A foreign server as an engine of Baton: token ids in, token ids out, over HTTP.
 *
 * Owns: the life (found → described → compared → serving → gone), the validation of requests, and the watch of the
 * server: its load, and whether it is still there. The server's language is in its dialect.
 */
import { BatonError } from '../base/index.ts'
import type { Clock, WorkerId } from '../base/index.ts'
import type { Engine, EngineMetric, EngineObserver, GenerateContext } from '../engine/index.ts'
import type { Chunk, DisaggregationMode, EngineConfig, GenerateRequest } from '../request/index.ts'
import type { ModelText } from '../text/index.ts'
import { AnswerStream } from './answer-stream.ts'
import { clearCache } from './client/clear-cache.ts'
import { UpstreamClient } from './client/upstream-client.ts'
import type { UpstreamClientOptions } from './client/upstream-client.ts'
import { parseUpstreamUrl } from './client/upstream-url.ts'
import { createDialect } from './dialects/dialect-table.ts'
import type { UpstreamKind } from './dialects/dialect-table.ts'
import type { Dialect, UpstreamFacts } from './dialects/dialect.ts'
import { TokensOfText } from './dialects/lost-tokens.ts'
import type { LostTokens } from './dialects/lost-tokens.ts'
import { KvEventFeed } from './events/kv-event-feed.ts'
import type { KvEventPlace } from './events/kv-event-feed.ts'
import type { ForwardTarget } from './forward/forward-target.ts'
import { crossingOf, forwardedChunks } from './forward/remote-forward.ts'
import { AdapterNews } from './watch/adapter-news.ts'
import { HandOverCounts } from './watch/hand-over-counts.ts'
import { OutputBook } from './output-book.ts'
import { generateInTwo, tokensOwed } from './min-tokens.ts'
import { findText, UnreadableText } from './engine-text.ts'
import type { EngineText, EngineTextOptions } from './engine-text.ts'
import { checkRequest, decoded, handOverNews, needsKv, written } from './prepare-request.ts'
import { LearnedStream } from './remote-text/learned-stream.ts'
import type { JoinedText } from './remote-text/remote-texts.ts'
import { answeredQuestion, tokenizerQuestionOf } from './remote-text/tokenizer-question.ts'
import type { TokenizerQuestion } from './remote-text/tokenizer-question.ts'
import { detectKind } from './kind/upstream-kind.ts'
import type { FoundKind } from './kind/upstream-kind.ts'
import { serverIdentity } from './watch/server-identity.ts'
import type { ServerIdentity } from './watch/server-identity.ts'
import { upstreamMetrics } from './watch/upstream-metrics.ts'
import { UpstreamWatch } from './watch/upstream-watch.ts'

export interface UpstreamEngineOptions extends EngineTextOptions {
  readonly url: string
  /** The name that the URL's address was resolved from. */
  readonly hostName?: string
  readonly clock: Clock
  readonly mode: DisaggregationMode
  /** Absent: detected. */
  readonly kind?: UpstreamKind
  /** The model's name for clients. Absent: the server's name. */
  readonly servedModelName?: string
  /** The batch size of each rank. Absent: what the server reports. */
  readonly maxNumSeqs?: number
  readonly client?: Partial<Omit<UpstreamClientOptions, 'url' | 'clock'>>
  /** How long a server may take to be ready. */
  readonly startDeadlineMs?: number
  /** Interval of checks of the server's load. */
  readonly watchMs?: number
  /** Where KV events are published, when the server does not announce it. */
  readonly kvEventPlaces?: readonly KvEventPlace[]
  readonly onFault?: (error: unknown) => void
  /** Called for KV events that are not used, with a text for the operator. Absent: `onNote` is called. */
  readonly onUnusedEvents?: (text: string) => void
  /** The folder of llama-server's `--slot-save-path`, for KV transfer by files. */
  readonly slotFolder?: string
  /** True: its tokens are decoded elsewhere, so their bytes are not asked for here. */
  readonly givesIdsOnly?: boolean
  /** Called once, when the server does not answer any more. */
  readonly onLost?: (error: BatonError) => void
}

const START_PAUSE_MS = 500
const IDENTITY_MS = 10_000
const NO_EVENTS =
  'publishes no KV events: routing assumes that it caches what it was sent; enable them with --kv-events-config of the engine'
const NO_READER =
  'publishes KV events, but the package that reads them is not installed: npm i zeromq@6.8.0'
const START_DEADLINE_MS = 600_000

interface Started {
  readonly kind: UpstreamKind
  readonly dialect: Dialect
  readonly facts: UpstreamFacts
  readonly vocabSize: number
  readonly text: ModelText | null
  readonly lost: LostTokens | null
  /** Set when tokenizer and template are the server's; null: they are read here. */
  readonly remote: JoinedText | null
  readonly watch: UpstreamWatch
  readonly feed: KvEventFeed | null
}

export class UpstreamEngine implements Engine {
  readonly hasOtherClients = true
  readonly #options: UpstreamEngineOptions
  readonly #client: UpstreamClient
  readonly #closing = new AbortController()
  readonly #streams = new Set<AnswerStream>()
  #found: FoundKind | null = null
  #started: Started | null = null
  #observer: EngineObserver | null = null
  #lacksText = false
  readonly #handOvers = new HandOverCounts()
  readonly #adapters = new AdapterNews()

  /** Throws `config.invalid`. */
  constructor(options: UpstreamEngineOptions) {
    this.#options = options
    const { url, hostName, clock, client } = options
    this.#client = new UpstreamClient({ ...client, url: parseUpstreamUrl(url, hostName), clock })
  }

  /** The detected kind of server, after `start` has found it. */
  get found(): FoundKind | null {
    return this.#found
  }

  /** The chat template if it is the server's; null: that of the model's files is used. */
  get chatTemplate(): string | null {
    return this.#started?.remote?.description.template ?? null
  }

  /** True when `start` failed because the tokenizer is at a path of the server that cannot be read here. */
  get lacksText(): boolean {
    return this.#lacksText
  }

  /** The target of forwarded requests: it has the same limit, breaker and watch as requests with tokens. */
  get target(): ForwardTarget {
    const { clock, mode, kind = this.#found?.kind ?? 'openai' } = this.#options
    return { client: this.#client, clock, mode, kind, handOvers: this.#handOvers }
  }

  async start(_workerId: WorkerId): Promise<EngineConfig> {
    const found = await this.#untilReady(() => this.#detect())
    this.#found = found
    const onNote = (note: string): void => this.#options.onNote?.(note)
    const dialect = await createDialect(found.kind, {
      mode: this.#options.mode,
      clock: this.#options.clock,
      ...(this.#options.slotFolder === undefined ? {} : { slotFolder: this.#options.slotFolder }),
      onNote,
    })
    const said = await this.#untilReady(() => dialect.describe(this.#client, this.#closing.signal))
    const facts = this.#named(said)
    const askIdentity = (deadlineMs: number): Promise<ServerIdentity | null> =>
      serverIdentity(this.#client, { dialect, model: facts.model, deadlineMs })
    const identity = await askIdentity(IDENTITY_MS)
    const { modelPath, text, remote } = await this.#findText(facts, dialect, found.kind)
    this.#throwIfClosed()
    const watch = new UpstreamWatch({
      client: this.#client,
      dialect,
      identity,
      askIdentity,
      ...(dialect.hasAdapters === true
        ? { adapters: this.#adapters.from(facts.loraAdapters) }
        : {}),
      clock: this.#options.clock,
      everyMs: this.#options.watchMs ?? 1000,
      onLoad: (report) => this.#observer?.load(report),
      onNote,
      onUnavailable: (error) => this.#observer?.unavailable?.(error),
      onLost: (error) => this.#options.onLost?.(error),
    })
    const vocabSize = facts.vocabSize ?? text?.tokenizer.vocabSize ?? Infinity
    const feed = await this.#openFeed(dialect, facts)
    const local = text === null ? null : new TokensOfText(text.tokenizer)
    const lost = remote?.text.tokenizer ?? local
    this.#started = { kind: found.kind, dialect, facts, vocabSize, text, lost, remote, watch, feed }
    watch.start()
    const config = this.#configOf(facts, dialect, { modelPath, remote })
    const { kvBlockTokens } = facts
    return feed === null || kvBlockTokens === undefined
      ? config
      : { ...config, kvCacheBlockSize: kvBlockTokens }
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<Chunk> {
    const started = this.#startedOrThrow()
    const crossing = crossingOf(request)
    if (crossing !== null) {
      return yield* forwardedChunks(this.target, crossing, request, context)
    }
    const question = tokenizerQuestionOf(request)
    if (question !== null) return yield await this.#answered(question)
    checkRequest(request, started)
    const owed = started.dialect.knowsMinTokens ? 0 : tokensOwed(request)
    const once = (part: GenerateRequest) => this.#generate(part, context, started)
    yield* owed === 0 ? once(request) : generateInTwo(request, owed, once)
  }

  /** Answers a frontend's question about the tokenizer, which is at the server. */
  async #answered(question: TokenizerQuestion): Promise<Chunk> {
    const { remote } = this.#startedOrThrow()
    if (remote !== null) return await answeredQuestion(question, remote)
    throw new BatonError('request.not_found', 'the tokenizer of this engine is not available here')
  }

  async *#generate(
    request: GenerateRequest,
    context: GenerateContext,
    { dialect, facts, lost, remote, text, vocabSize }: Started,
  ): AsyncIterable<Chunk> {
    const { mode } = this.#options
    const { signal } = context
    const decode = (tokenIds: Uint32Array): string => decoded(text, tokenIds)
    const client = this.#client
    const ready = await written(dialect, request, { client, facts, mode, signal, decode, lost })
    if (ready === null) return yield new OutputBook(request).cancelled(0)
    const stream = new AnswerStream(request, ready, vocabSize)
    const learned =
      remote === null
        ? null
        : new LearnedStream(
            remote.text.tokenizer,
            request.stop.maxTokens ?? Infinity,
            this.#options.givesIdsOnly !== true,
          )
    const onStop = (): void => stream.cancel()
    this.#streams.add(stream)
    try {
      // With a KV transfer the server must receive the request although it is no longer wanted.
      if (!signal.aborted || ready.mustArrive === true) stream.start(this.#client)
      if (signal.aborted) stream.cancel()
      else signal.addEventListener('abort', onStop, { once: true })
      if (ready.meeting !== undefined && !signal.aborted) {
        yield { tokenIds: [], prefillResult: ready.meeting }
      }
      for (;;) {
        const next = await stream.next()
        const chunk = learned === null ? next : await learned.take(next)
        if (chunk === null) continue
        if (chunk.finish === undefined) yield chunk
        else {
          const isWhole = chunk.finish !== 'cancelled'
          const added = isWhole ? await ready.complete?.() : undefined
          const last = { ...chunk, ...handOverNews(stream.book, request), ...added }
          this.#handOvers.ended(last)
          return yield last
        }
      }
    } catch (thrown) {
      const isOfKv = mode === 'decode' && needsKv(request) && stream.book.tokenCount === 0
      throw isOfKv ? this.#handOvers.failure(BatonError.from(thrown)) : thrown
    } finally {
      signal.removeEventListener('abort', onStop)
      stream.close()
      ready.release?.()
      this.#streams.delete(stream)
    }
  }

  readonly controls = {
    clear_kv_blocks: async (): Promise<unknown> =>
      await clearCache(this.#client, this.#startedOrThrow().dialect),
  }

  observe(observer: EngineObserver): void {
    this.#observer = observer
    this.#adapters.tell(observer)
    this.#started?.feed?.start()
  }

  isQuiescent(): boolean {
    return this.#streams.size === 0
  }

  metrics(): readonly EngineMetric[] {
    return [
      ...upstreamMetrics(this.#client, {
        handOvers: this.#handOvers,
        loads: this.#started?.watch.loads ?? [],
      }),
      ...(this.#started?.feed?.metrics() ?? []),
    ]
  }

  async cleanup(): Promise<void> {
    this.#closing.abort()
    this.#started?.watch.close()
    this.#started?.remote?.leave()
    this.#started?.feed?.close()
    this.#client.close()
    await this.#started?.dialect.close?.()
  }

  async #detect(): Promise<FoundKind> {
    const { kind } = this.#options
    if (kind !== undefined) return { kind, version: null, mode: null }
    return await detectKind(this.#client, this.#closing.signal)
  }

  /** For a server that lists no model, the name that clients use. */
  #named(facts: UpstreamFacts): UpstreamFacts {
    const { servedModelName } = this.#options
    return facts.model === '' ? { ...facts, model: servedModelName ?? 'default' } : facts
  }

  /** Decode workers publish no blocks to routers, because theirs came from others. */
  async #openFeed(dialect: Dialect, facts: UpstreamFacts): Promise<KvEventFeed | null> {
    const { kvEventPlaces, mode, onFault, onNote } = this.#options
    const onUnused = this.#options.onUnusedEvents ?? onNote
    const { kvBlockTokens: blockTokens } = facts
    if (mode === 'decode' || blockTokens === undefined) return null
    const places =
      kvEventPlaces ?? (await dialect.kvEventPlaces?.(this.#client, this.#closing.signal)) ?? []
    if (places.length === 0) {
      if (dialect.kvEventPlaces !== undefined) onNote?.(NO_EVENTS)
      return null
    }
    const feed = await KvEventFeed.open({
      places,
      blockTokens,
      host: this.#client.url.host,
      onEvents: (dpRank, events) => this.#observer?.kvEvents(dpRank, events),
      onFault: (error) => onFault?.(error),
      ranks: facts.ranks ?? 1,
      onUnused: (text) => onUnused?.(`sends KV events that are not used for routing: ${text}`),
    })
    if (feed === null) onNote?.(NO_READER)
    return feed?.isEmpty === true ? null : feed
  }

  /** Retries while the server does not answer or loads its model. */
  async #untilReady<T>(ask: () => Promise<T>): Promise<T> {
    const { clock, startDeadlineMs = START_DEADLINE_MS } = this.#options
    const endMs = clock.nowMs() + startDeadlineMs
    for (;;) {
      this.#throwIfClosed()
      try {
        return await ask()
      } catch (thrown) {
        const error = BatonError.from(thrown)
        const isLasting = !error.row.retryable && error.code !== 'request.cancelled'
        if (isLasting || clock.nowMs() + START_PAUSE_MS > endMs) throw this.#startError(error)
      }
      await new Promise<void>((resolve) => {
        clock.after(START_PAUSE_MS, resolve)
      })
    }
  }

  #startError(error: BatonError): BatonError {
    const { text } = this.#client.url
    return new BatonError(error.code, `no engine answers at ${text}: ${error.message}`, {
      data: error.data,
      cause: error,
    })
  }

  async #findText(facts: UpstreamFacts, dialect: Dialect, kind: UpstreamKind): Promise<EngineText> {
    try {
      return await findText(this.#options, { client: this.#client, facts, dialect, kind })
    } catch (thrown) {
      this.#lacksText = thrown instanceof UnreadableText
      throw thrown
    }
  }

  #configOf(
    facts: UpstreamFacts,
    dialect: Dialect,
    { modelPath, remote }: Pick<EngineText, 'modelPath' | 'remote'>,
  ): EngineConfig {
    const { servedModelName, maxNumSeqs = facts.sequences } = this.#options
    return {
      model: facts.model,
      features: facts.features,
      ...(servedModelName === undefined ? {} : { servedModelName }),
      ...(facts.modelAliases === undefined ? {} : { modelAliases: facts.modelAliases }),
      ...(facts.loraAdapters === undefined ? {} : { loraAdapters: facts.loraAdapters }),
      ...(facts.contextLength === undefined ? {} : { contextLength: facts.contextLength }),
      ...(maxNumSeqs === undefined ? {} : { maxNumSeqs }),
      ...(facts.kvBlocks === undefined ? {} : { totalKvBlocks: facts.kvBlocks }),
      ...(facts.ranks === undefined ? {} : { dataParallelSize: facts.ranks }),
      ...(facts.bootstrapHost === undefined ? {} : { bootstrapHost: facts.bootstrapHost }),
      ...(facts.bootstrapPort === undefined ? {} : { bootstrapPort: facts.bootstrapPort }),
      ...(modelPath === undefined ? {} : { modelPath }),
      ...(remote === null ? {} : { textDigest: remote.digest }),
      runtimeData: {
        upstream_kind: this.#found?.kind,
        upstream_url: this.#client.url.text,
        forwards: true,
        ...(remote === null ? {} : { remote_tokenizer: true }),
        ...(this.#found?.version === null ? {} : { upstream_version: this.#found?.version }),
        ...facts.runtimeData,
      },
      ...dialect.config?.(facts),
    }
  }

  #startedOrThrow(): Started {
    this.#throwIfClosed()
    if (this.#started !== null) return this.#started
    throw new BatonError('backend.engine_shutdown', 'the engine was not started')
  }

  #throwIfClosed(): void {
    if (!this.#closing.signal.aborted) return
    throw new BatonError('backend.engine_shutdown', 'the engine is shutting down')
  }
}
