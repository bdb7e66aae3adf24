/**
 * The contract between Baton and whatever computes tokens. One small class makes a worker.
 *
 * Order of calls: start → (kvEvents, load, healthCheckPayload) → many generate at once, abort as needed → drain →
 * cleanup. `cleanup` is called exactly once by the worker, also after a failed or missing start, and must be
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
  /** Called once. When it resolves, `generate` works. A rejection means that the worker does not start. */
  start(workerId: WorkerId): Promise<EngineConfig>

  /**
   * Chunks, then exactly one terminal item (a chunk with `finish`, or a thrown BatonError), then nothing.
   * Must look at `context.isStopped` between yields and then end with `finish: 'cancelled'`. Resources of the request
   * are released in `finally`: the consumer may simply stop reading.
   */
  generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<EngineChunk>

  /**
   * Optional, for an engine with the feature `embeddings`: one finite vector of the prompt, `embeddingLength` numbers.
   * Called for requests of kind `embed`, many at once. When `context` is stopped it should end soon; what it returns
   * or throws is then dropped.
   */
  embed?(request: GenerateRequest, context: GenerateContext): Promise<Float32Array>

  /** Only on an explicit stop or kill while the stream is live; never for a stream that was merely dropped. */
  abort?(requestId: string): void | Promise<void>

  /** Admission has ended; finish what is in flight. */
  drain?(): Promise<void>

  /** Prefill workers: true = no KV is in transfer, false = busy, null = cannot tell. */
  isQuiescent?(): boolean | null

  /** Exactly once by the worker; idempotent; safe on what was never started. */
  cleanup(): Promise<void>

  /** Request that a health probe sends when the worker is idle; absent or null: no probe. */
  healthCheckPayload?(): GenerateRequest | null

  /** Called once after start. The engine calls the observer synchronously, at most once per step. */
  observe?(observer: EngineObserver): void

  /**
   * What a rank holds for everybody now, parents before children, as one would have been told it. Only for an engine that
   * tells a block once, with its first copy, and its removal with the last one: the worker then keeps no books beside it.
   */
  readonly heldKv?: ((dpRank: number) => readonly KvEvent[]) | undefined

  /** KV that can be handed over block by block; absent: the engine moves its KV itself or not at all. */
  readonly kvBlocks?: KvBlockSource | undefined

  /** What the engine counts, read at each scrape of the worker's metrics; must be quick and must not wait. */
  metrics?(): readonly EngineMetric[]

  /** Named operations of an administrator, for example `clear_kv_blocks`. */
  readonly controls?: Readonly<Record<string, (body: unknown) => Promise<unknown>>>
}

export interface EngineObserver {
  kvEvents(dpRank: number, events: readonly KvEvent[]): void
  load(report: LoadReport): void
  /**
   * For an engine that may be away for a time, and why: the worker gets no new requests until `null` is told. Those that run
   * go on; they end as the engine ends them.
   */
  unavailable?(reason: BatonError | null): void
}
