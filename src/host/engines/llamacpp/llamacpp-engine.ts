/**
 * llama.cpp as an engine of Baton: several requests at once, prefix cache in host memory, KV handed over by block.
 *
 * Owns: the life (start → generate … → cleanup) and the wiring. The work is in `step-loop.ts`, the shapes of the
 * batches in `native-session.ts`, the KV in `prefix-cache.ts`.
 */
import { randomInt } from 'node:crypto'
import { basename } from 'node:path'
import { BatonError } from '../../../base/index.ts'
import type { WorkerId } from '../../../base/index.ts'
import { KvBlockStore, metricsOfLoad } from '../../../engine/index.ts'
import type {
  Engine,
  EngineMetric,
  EngineObserver,
  GenerateContext,
  KvBlockSource,
} from '../../../engine/index.ts'
import type { LoadReport } from '../../../kv/index.ts'
import type { Chunk, EngineConfig, GenerateRequest } from '../../../request/index.ts'
import { guidedGrammar } from '../../../text/index.ts'
import { loadBindings } from './bindings.ts'
import type { NativeBindings, NativeGrammarState } from './bindings.ts'
import { checkRequest, checkTokens } from './check-request.ts'
import { Embedder } from './embedder.ts'
import { compileLlamaCppOptions } from './llamacpp-options.ts'
import type { LlamaCppConfig, LlamaCppOptions } from './llamacpp-options.ts'
import { KvEventLog } from './kv-event-log.ts'
import { loadModel } from './load-model.ts'
import type { LoadedModel } from './load-model.ts'
import { PrefixCache } from './prefix-cache.ts'
import { SequenceRun } from './sequence-run.ts'
import { StepLoop } from './step-loop.ts'
import { TokenChooser } from './token-chooser.ts'

const SEED_BOUND = 2 ** 32

export class LlamaCppEngine implements Engine {
  readonly #config: LlamaCppConfig
  readonly #events = new KvEventLog()
  readonly #runs = new Map<string, SequenceRun>()
  #bindings: NativeBindings | undefined
  #load: LoadReport | undefined
  #loaded: LoadedModel | undefined
  #loop: StepLoop | undefined
  #store: KvBlockStore | undefined
  #embedder: Embedder | undefined
  #observer: EngineObserver | undefined
  #cleaned: Promise<void> | undefined
  #arrivals = 0

  /** Throws `config.invalid`. */
  constructor(options: LlamaCppOptions) {
    this.#config = compileLlamaCppOptions(options)
  }

  get kvBlocks(): KvBlockSource | undefined {
    return this.#store
  }

  async start(_workerId: WorkerId): Promise<EngineConfig> {
    const config = this.#config
    this.#bindings = await loadBindings(config.gpu)
    const loaded = await loadModel(this.#bindings, config)
    if (this.#cleaned !== undefined) {
      await loaded.session.close()
      throw new BatonError('backend.engine_shutdown', 'the engine was cleaned up while it started')
    }
    this.#loaded = loaded
    const { session, contextLength, endTokens, file } = loaded
    const { layout } = session
    if (layout === undefined && config.mode !== 'agg') {
      throw new BatonError(
        'model.load_failed',
        `the KV of this ${file.architecture} model cannot be cut into blocks: run it aggregated`,
      )
    }
    if (layout !== undefined && config.kvStoreBytes > 0) {
      this.#store = new KvBlockStore({
        fingerprint: loaded.fingerprint,
        blockTokens: config.blockTokens,
        bytesPerToken: layout.bytesPerToken,
        capacityBytes: config.kvStoreBytes,
        createMemory: (byteLength) => Buffer.allocUnsafeSlow(byteLength),
        onRemoved: (low, high) => this.#events.removed(low, high),
      })
    }
    const cache =
      this.#store === undefined ? undefined : new PrefixCache(session, this.#store, this.#events)
    const { embeddingLength } = file
    if (embeddingLength !== undefined) {
      this.#embedder = new Embedder(this.#bindings, session.model, { ...config, contextLength })
    }
    const embeds = embeddingLength === undefined ? [] : (['embeddings'] as const)
    const totalBlocks = Math.floor((config.sequences * contextLength) / config.blockTokens)
    this.#loop = new StepLoop({
      session,
      cache,
      mode: config.mode,
      sequences: config.sequences,
      queueMax: config.queueMax,
      blockTokens: config.blockTokens,
      totalBlocks,
      decodesTogether: loaded.decodesTogether,
      endTokens,
      onStep: (load) => this.#report(load),
    })
    return {
      model: config.modelName ?? basename(config.modelPath).replace(/\.gguf$/i, ''),
      contextLength,
      kvCacheBlockSize: config.blockTokens,
      totalKvBlocks: totalBlocks,
      maxNumSeqs: config.sequences,
      maxNumBatchedTokens: config.prefillChunk,
      modelPath: config.modelPath,
      features: [
        'logprobs',
        'guided',
        'gbnf',
        'penalties',
        'logit_bias',
        'min_p',
        'seed',
        ...embeds,
      ],
      ...(embeddingLength === undefined ? {} : { embeddingLength }),
      runtimeData: { architecture: file.architecture, fingerprint: loaded.fingerprint },
    }
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<Chunk> {
    const run = this.#createRun(request, context)
    this.#loopOrThrow().submit(run)
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
    const loaded = this.#loadedOrThrow()
    checkTokens(request.tokenIds, loaded.file.vocabSize)
    if (this.#embedder === undefined) {
      throw new BatonError('request.unsupported_parameter', 'this model makes no embeddings')
    }
    return await this.#embedder.embed(request.tokenIds, context)
  }

  abort(requestId: string): void {
    this.#runs.get(requestId)?.abandon()
  }

  async drain(): Promise<void> {
    await this.#loop?.drained()
  }

  isQuiescent(): boolean {
    return (this.#loop?.isIdle ?? true) && (this.#store?.pinnedBytes ?? 0) === 0
  }

  cleanup(): Promise<void> {
    this.#cleaned ??= this.#close()
    return this.#cleaned
  }

  /** Nothing before the first step. */
  metrics(): readonly EngineMetric[] {
    return this.#load === undefined ? [] : metricsOfLoad(this.#load)
  }

  healthCheckPayload(): GenerateRequest | null {
    if (this.#loaded === undefined) return null
    return {
      requestId: 'health-check',
      model: basename(this.#config.modelPath),
      tokenIds: Uint32Array.of(this.#loaded.probeToken),
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

  #loopOrThrow(): StepLoop {
    if (this.#loop !== undefined && this.#cleaned === undefined) return this.#loop
    throw new BatonError('backend.engine_shutdown', 'the llama.cpp engine is not running')
  }

  #loadedOrThrow(): LoadedModel {
    this.#loopOrThrow()
    if (this.#loaded !== undefined) return this.#loaded
    throw new BatonError('backend.engine_shutdown', 'no model is loaded')
  }

  #createRun(request: GenerateRequest, context: GenerateContext): SequenceRun {
    const loaded = this.#loadedOrThrow()
    checkRequest(request, { contextLength: loaded.contextLength, vocabSize: loaded.file.vocabSize })
    const chooser = new TokenChooser({
      request,
      seed: request.sampling.seed ?? randomInt(SEED_BOUND),
      endTokens: loaded.endTokens,
      contextLength: loaded.contextLength,
      createSampler: () => loaded.session.createSampler(),
      grammarState: this.#createGrammar(request, loaded),
    })
    return new SequenceRun(request, context, chooser, loaded.contextLength, this.#arrivals++)
  }

  #createGrammar(request: GenerateRequest, loaded: LoadedModel): NativeGrammarState | undefined {
    const { guided } = request.sampling
    const bindings = this.#bindings
    if (guided === undefined || bindings === undefined) return undefined
    const options = { addonExports: bindings, rootRuleName: 'root' }
    let state: NativeGrammarState
    try {
      const grammar = new bindings.AddonGrammar(guidedGrammar(guided), options)
      // Prefill writes nothing, but what decode would refuse is not worth computing.
      if (this.#config.mode === 'prefill') return undefined
      state = new bindings.AddonGrammarEvaluationState(loaded.session.model, grammar)
    } catch (cause) {
      if (cause instanceof BatonError) throw cause
      const data = guided.field === undefined ? {} : { param: guided.field }
      throw new BatonError('request.invalid_argument', 'the grammar does not parse', {
        cause,
        data,
      })
    }
    const resumed = request.tokenIds.length - (request.resumedTokens ?? 0)
    for (const token of request.tokenIds.subarray(resumed))
      bindings.AddonSampler.acceptGrammarEvaluationStateToken(state, token)
    return state
  }

  #report(load: LoadReport): void {
    this.#load = load
    this.#flushEvents()
    this.#observer?.load(load)
  }

  /** Decode workers tell nothing: what they hold came from others. */
  #flushEvents(): void {
    const events = this.#events.take()
    if (events.length > 0 && this.#config.mode !== 'decode') this.#observer?.kvEvents(0, events)
  }

  async #close(): Promise<void> {
    await this.#loop?.close(
      new BatonError('backend.engine_shutdown', 'the engine is shutting down'),
    )
    await this.#embedder?.close()
    await this.#loaded?.session.close()
  }
}
