/**
 * The contract between Baton and whatever computes tokens. One small class that implements it makes a worker.
 *
 * Order of calls: start → (kvEvents, load, healthCheckPayload) → many concurrent generate calls, abort as needed →
 * drain → cleanup. The worker calls `cleanup` exactly once, also after a failed or missing start; it must be
 * idempotent.
 */
import type { BatonError, WorkerId } from '../base/index.ts'
import type { KvEvent, LoadReport } from '../kv/index.ts'
import type { EngineConfig, GenerateRequest } from '../request/index.ts'
import type { EngineChunk } from './engine-chunk.ts'
import type { EngineMetric } from './engine-metric.ts'
import type { GenerateContext } from './generate-context.ts'
import type { KvBlockSource } from './kv-block-source.ts'

export interface Engine {
  /** Called once. When it resolves, `generate` must work. If it rejects, the worker does not start. */
  start(workerId: WorkerId): Promise<EngineConfig>

  /**
   * Yields chunks, then exactly one terminal item (a chunk with `finish`, or a thrown BatonError), then nothing. Must
   * check `context.isStopped` between yields and then end with `finish: 'cancelled'`. Release the request's resources
   * in `finally`, because the consumer may simply stop reading.
   */
  generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<EngineChunk>

  /**
   * Optional, for an engine with the feature `embeddings`: returns one finite vector of the prompt with
   * `embeddingLength` numbers. Called concurrently for requests of kind `embed`. If `context` is stopped it should
   * end soon; its result is ignored.
   */
  embed?(request: GenerateRequest, context: GenerateContext): Promise<Float32Array>

  /** Called only for an explicit stop or kill of a live stream, never for a stream that was merely dropped. */
  abort?(requestId: string): void | Promise<void>

  /** No new requests will be admitted; finish those in flight. */
  drain?(): Promise<void>

  /** For prefill workers: true = no KV transfer in progress, false = busy, null = unknown. */
  isQuiescent?(): boolean | null

  /** Called exactly once by the worker; idempotent; must be safe if the engine was never started. */
  cleanup(): Promise<void>

  /** The request that a health probe sends while the worker is idle; absent or null: no probe. */
  healthCheckPayload?(): GenerateRequest | null

  /** Called once after start. The engine calls the observer synchronously, at most once per step. */
  observe?(observer: EngineObserver): void

  /**
   * The current KV blocks of a rank as events, parents before children. Only for an engine that reports a block once,
   * with its first copy, and its removal with the last copy: the worker then keeps no books of its own.
   */
  readonly heldKv?: ((dpRank: number) => readonly KvEvent[]) | undefined

  /** KV that can be handed over block by block; absent: the engine transfers its KV itself or not at all. */
  readonly kvBlocks?: KvBlockSource | undefined

  /**
   * True: a server that other programs send requests to as well. Its load may be more than this worker has sent, so the
   * worker does not correct its reports; the engine repeats them itself.
   */
  readonly hasOtherClients?: boolean | undefined

  /** The engine's metrics, read at each scrape of the worker; must return at once. */
  metrics?(): readonly EngineMetric[]

  /** Named admin operations, for example `clear_kv_blocks`. */
  readonly controls?: Readonly<Record<string, (body: unknown) => Promise<unknown>>>
}

export interface EngineObserver {
  kvEvents(dpRank: number, events: readonly KvEvent[]): void
  load(report: LoadReport): void
  /**
   * For an engine that may be temporarily unavailable, with the reason: the worker gets no new requests until it is
   * called with `null`. Running requests are not affected.
   */
  unavailable?(reason: BatonError | null): void
  /** For an engine that loads and unloads LoRA adapters while it runs: all that it serves from now on. */
  loraAdapters?(names: readonly string[]): void
}
