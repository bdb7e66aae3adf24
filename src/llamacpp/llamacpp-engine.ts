/**
 * llama.cpp as an engine of Baton: several concurrent requests, a prefix cache in host memory, KV transfer by block.
 *
 * Owns: the life (start → generate … → cleanup) and the wiring. The computation runs on a thread (`thread/`), which
 * calls llama.cpp's C API (`native/`). `run-queue.ts` decides which runs the thread gets; the KV is in
 * `prefix-cache.ts`.
 */
import { randomInt } from 'node:crypto'
import { basename } from 'node:path'
import { BatonError } from '../base/index.ts'
import type { WorkerId } from '../base/index.ts'
import { KvBlockStore, metricsOfLoad } from '../engine/index.ts'
import type {
  Engine,
  EngineMetric,
  EngineObserver,
  GenerateContext,
  KvBlockSource,
} from '../engine/index.ts'
import type { LoadReport } from '../kv/index.ts'
import type { Chunk, EngineConfig, GenerateRequest } from '../request/index.ts'
import { guidedGrammar } from '../text/index.ts'
import { checkRequest, checkTokens } from './check-request.ts'
import { Embeddings } from './embeddings.ts'
import { EngineThread } from './thread/engine-thread.ts'
import { KvEventLog } from './kv-event-log.ts'
import { compileLlamaCppOptions } from './model/llamacpp-options.ts'
import type { LlamaCppConfig, LlamaCppOptions } from './model/llamacpp-options.ts'
import { inspectModelFile } from './model/model-file.ts'
import type { ModelFile } from './model/model-file.ts'
import { PACKAGE_VERSION } from './native/library-files.ts'
import { NO_BLOCKS, PrefixCache } from './prefix-cache.ts'
import type { CachedPrompt } from './prefix-cache.ts'
import { RunQueue } from './run-queue.ts'
import { SequenceRun } from './sequence-run.ts'
import { SpareMemory } from './spare-memory.ts'
import { layoutText } from './state/state-layout.ts'
import type { KvLayout } from './state/state-layout.ts'
import type { StartedMessage, StepMessage, ToThread } from './thread/thread-messages.ts'

const SEED_BOUND = 2 ** 32

interface StartedModel extends StartedMessage {
  readonly file: ModelFile
  readonly fingerprint: string
}

export class LlamaCppEngine implements Engine {
  readonly #config: LlamaCppConfig
  readonly #events = new KvEventLog()
  readonly #runs = new Map<string, SequenceRun>()
  #thread: EngineThread | undefined
  #model: StartedModel | undefined
  #load: LoadReport | undefined
  #queue: RunQueue | undefined
  #store: KvBlockStore | undefined
  #spareMemory: SpareMemory | undefined
  #embeddings: Embeddings | undefined
  #observer: EngineObserver | undefined
  #cleaned: Promise<void> | undefined
  #lastId = 0

  /** Throws `config.invalid`. */
  constructor(options: LlamaCppOptions) {
    this.#config = compileLlamaCppOptions(options)
  }

  get kvBlocks(): KvBlockSource | undefined {
    return this.#store
  }

  async start(_workerId: WorkerId): Promise<EngineConfig> {
    const config = this.#config
    const file = inspectModelFile(config.modelPath)
    const { thread, started, addressOf } = await EngineThread.open({
      config,
      onStep: (message) => this.#take(message),
      onTokens: (tokens) => this.#queue?.takeTokens(tokens),
      onLost: (error) => this.#lose(error),
    })
    this.#thread = thread
    if (this.#cleaned !== undefined) {
      await thread.close()
      throw new BatonError('backend.engine_shutdown', 'the engine was cleaned up during its start')
    }
    const { contextLength, layout } = started
    if (layout === undefined && config.mode !== 'agg') {
      throw new BatonError(
        'model.load_failed',
        `the KV of this ${file.architecture} model cannot be split into blocks: run the worker with --mode agg`,
      )
    }
    const fingerprint = `llamacpp-${PACKAGE_VERSION}/${file.identity}/${config.blockTokens}/${layout === undefined ? 'none' : layoutText(layout)}`
    this.#model = { ...started, file, fingerprint }
    const cache = layout === undefined ? undefined : this.#openCache(layout, fingerprint, addressOf)
    const send = (message: ToThread): void => thread.send(message)
    const { embeddingLength } = file
    const { queueMax } = config
    if (embeddingLength !== undefined)
      this.#embeddings = new Embeddings({ contextLength, queueMax, send })
    const embeds = embeddingLength === undefined ? [] : (['embeddings'] as const)
    const totalBlocks = Math.floor((config.sequences * contextLength) / config.blockTokens)
    this.#queue = new RunQueue({
      ...config,
      cache,
      totalBlocks,
      send,
      describe: (run, cached) => this.#describe(run, cached),
      onStep: (load) => this.#report(load),
    })
    return {
      model: config.modelName ?? basename(config.modelPath).replace(/\.gguf$/i, ''),
      contextLength,
      // Without a cache there are no blocks to route by, and no KV events.
      ...(cache === undefined ? {} : { kvCacheBlockSize: config.blockTokens }),
      totalKvBlocks: totalBlocks,
      maxNumSeqs: config.sequences,
      maxNumBatchedTokens: config.prefillChunk,
      modelPath: config.modelPath,
      features: [
        'logprobs',
        'prompt_logprobs',
        'guided',
        'gbnf',
        'penalties',
        'logit_bias',
        'min_p',
        'seed',
        ...embeds,
      ],
      ...(embeddingLength === undefined ? {} : { embeddingLength }),
      runtimeData: {
        architecture: file.architecture,
        fingerprint,
        batching: started.batching,
        cpuLibrary: started.cpu,
      },
    }
  }

  #openCache(
    layout: KvLayout,
    fingerprint: string,
    addressOf: (bytes: Uint8Array) => bigint,
  ): PrefixCache | undefined {
    const { kvStoreBytes, blockTokens, mode } = this.#config
    if (kvStoreBytes === 0) return undefined
    const store = new KvBlockStore({
      fingerprint,
      blockTokens,
      bytesPerToken: layout.bytesPerToken,
      capacityBytes: kvStoreBytes,
      createMemory: (byteLength) => Buffer.allocUnsafeSlow(byteLength),
      onRemoved: (low, high) => this.#events.removed(low, high),
      onSpareTaken: () => this.#spareMemory?.fillSoon(),
    })
    this.#store = store
    // Transferred KV passes through this memory on both sides, and a request waits for it.
    if (mode !== 'agg') {
      this.#spareMemory = new SpareMemory(store)
      this.#spareMemory.fill()
    }
    const { bytesPerToken } = layout
    return new PrefixCache(store, { bytesPerToken, events: this.#events, addressOf })
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<Chunk> {
    const run = this.#createRun(request, context)
    this.#queueOrThrow().submit(run)
    this.#runs.set(request.requestId, run)
    try {
      for (;;) {
        const chunk = await run.next()
        yield chunk
        if (chunk.finish !== undefined) return
      }
    } finally {
      run.abandon()
      if (this.#runs.get(request.requestId) === run) this.#runs.delete(request.requestId)
    }
  }

  async embed(request: GenerateRequest, context: GenerateContext): Promise<Float32Array> {
    const { vocabSize } = this.#modelOrThrow()
    checkTokens(request.tokenIds, vocabSize)
    if (this.#embeddings === undefined) {
      throw new BatonError(
        'request.unsupported_parameter',
        'this model does not support embeddings',
      )
    }
    return await this.#embeddings.embed(++this.#lastId, request.tokenIds, context)
  }

  abort(requestId: string): void {
    this.#runs.get(requestId)?.abandon()
  }

  async drain(): Promise<void> {
    await this.#queue?.drained()
  }

  isQuiescent(): boolean {
    return (this.#queue?.isIdle ?? true) && (this.#store?.pinnedBytes ?? 0) === 0
  }

  cleanup(): Promise<void> {
    this.#cleaned ??= this.#close()
    return this.#cleaned
  }

  /** Empty before the first step. */
  metrics(): readonly EngineMetric[] {
    return this.#load === undefined ? [] : metricsOfLoad(this.#load)
  }

  healthCheckPayload(): GenerateRequest | null {
    if (this.#model === undefined) return null
    return {
      requestId: 'health-check',
      model: basename(this.#config.modelPath),
      tokenIds: Uint32Array.of(this.#model.probeToken),
      sampling: { temperature: 0 },
      stop: { maxTokens: 1 },
      output: {},
      eosTokenIds: [],
      routing: {},
      isProbe: true,
    }
  }

  observe(observer: EngineObserver): void {
    this.#observer = observer
  }

  readonly controls = {
    clear_kv_blocks: (): Promise<unknown> => {
      const cleared = this.#store?.blockCount ?? 0
      this.#store?.clear()
      this.#flushEvents()
      return Promise.resolve({ cleared: cleared - (this.#store?.blockCount ?? 0) })
    },
  }

  #queueOrThrow(): RunQueue {
    if (this.#queue !== undefined && this.#cleaned === undefined) return this.#queue
    throw new BatonError('backend.engine_shutdown', 'the llama.cpp engine is not running')
  }

  #modelOrThrow(): StartedModel {
    this.#queueOrThrow()
    if (this.#model !== undefined) return this.#model
    throw new BatonError('backend.engine_shutdown', 'no model is loaded')
  }

  #createRun(request: GenerateRequest, context: GenerateContext): SequenceRun {
    const { contextLength, vocabSize } = this.#modelOrThrow()
    checkRequest(request, { contextLength, vocabSize })
    const { guided } = request.sampling
    const gbnf = guided === undefined ? undefined : guidedGrammar(guided)
    return new SequenceRun({
      id: ++this.#lastId,
      request,
      context,
      contextLength,
      gbnf,
      onStopped: (run) => this.#queue?.stop(run),
    })
  }

  #describe(run: SequenceRun, cached: CachedPrompt | undefined): ToThread {
    const { request, id, maxTokens, gbnf } = run
    const { guided, ...sampling } = request.sampling
    return {
      kind: 'run',
      request: {
        id,
        tokenIds: request.tokenIds,
        resumedTokens: request.resumedTokens ?? 0,
        maxTokens,
        mode: this.#config.mode,
        sampling,
        seed: sampling.seed ?? randomInt(SEED_BOUND),
        stop: request.stop,
        eosTokenIds: request.eosTokenIds,
        logprobs: request.output.logprobs,
        promptLogprobs: request.output.promptLogprobs,
        gbnf,
        gbnfField: guided?.field,
        held: cached?.held ?? NO_BLOCKS,
        wanted: cached?.wanted ?? NO_BLOCKS,
      },
    }
  }

  #take(message: StepMessage): void {
    this.#queue?.take(message)
    this.#embeddings?.take(message)
  }

  #lose(error: BatonError): void {
    this.#queue?.close(error)
    this.#queue?.forget()
    this.#embeddings?.close(error)
  }

  #report(load: LoadReport): void {
    this.#load = load
    this.#flushEvents()
    this.#observer?.load(load)
  }

  /** Decode workers publish no events, because their blocks came from other workers. */
  #flushEvents(): void {
    const events = this.#events.take()
    if (events.length > 0 && this.#config.mode !== 'decode') this.#observer?.kvEvents(0, events)
  }

  async #close(): Promise<void> {
    const error = new BatonError('backend.engine_shutdown', 'the engine is shutting down')
    this.#queue?.close(error)
    this.#embeddings?.close(error)
    this.#spareMemory?.close()
    await this.#thread?.close()
    this.#queue?.forget()
  }
}
