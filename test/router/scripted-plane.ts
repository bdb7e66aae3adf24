/** A request plane whose replies a test controls, and helpers to build a fleet. */
import { BatonError, workerIdOf } from '../../src/base/index.ts'
import type { ErrorCode, WorkerId } from '../../src/base/index.ts'
import { finishChunk } from '../../src/request/index.ts'
import type {
  Chunk,
  DisaggregationMode,
  EngineConfig,
  FinishReason,
  GenerateRequest,
  KvOffer,
  PrefillResult,
  ReplySink,
  RequestHandle,
  RequestPlane,
  PhaseEvent,
  RoutedEvent,
  RoutingHints,
  WorkerCard,
} from '../../src/request/index.ts'

/** One call of `send`, open until the test ends it. */
export class ScriptedCall {
  readonly workerId: WorkerId
  readonly request: GenerateRequest
  readonly sink: ReplySink
  readonly cancels: string[] = []

  constructor(workerId: WorkerId, request: GenerateRequest, sink: ReplySink) {
    this.workerId = workerId
    this.request = request
    this.sink = sink
  }

  token(tokenId = 7): void {
    this.sink.onToken(tokenId)
  }

  finish(finish: FinishReason = 'stop', rest: Partial<Chunk> = {}): void {
    this.sink.onChunk(finishChunk(finish, rest))
  }

  prefilled(result: PrefillResult = { engineParams: { id: 'kv' } }): void {
    this.sink.onChunk({ tokenIds: [7], finish: 'length', prefillResult: result })
  }

  /** Sends a KV offer that can be pulled before prefill is complete. */
  meets(kvOffer: KvOffer): void {
    this.sink.onChunk({ tokenIds: [], prefillResult: { kvOffer, meetsDecode: true } })
  }

  fail(code: ErrorCode): void {
    this.sink.onError(new BatonError(code, `scripted ${code}`))
  }
}

export class ScriptedPlane implements RequestPlane {
  readonly calls: ScriptedCall[] = []
  /** Worker id and offer id of every KV offer that was released. */
  readonly released: string[] = []
  /** Called inside `send`, for replies that arrive at once. */
  onSend: (call: ScriptedCall) => void = () => undefined

  send(workerId: WorkerId, request: GenerateRequest, sink: ReplySink): RequestHandle {
    const call = new ScriptedCall(workerId, request, sink)
    this.calls.push(call)
    this.onSend(call)
    return {
      cancel: (kind) => {
        call.cancels.push(kind)
        // Like real planes, the reply ends before `cancel` returns; later messages of the worker must be ignored.
        if (kind === 'kill') call.finish('cancelled')
      },
    }
  }

  releaseKv(workerId: WorkerId, offerId: string): void {
    this.released.push(`${workerId} ${offerId}`)
  }

  /** The nth call to any worker, from 0. */
  call(n: number): ScriptedCall {
    const call = this.calls[n]
    if (call === undefined) throw new Error(`only ${this.calls.length} calls were made`)
    return call
  }

  async close(): Promise<void> {}
}

/** Records what a client would receive. */
export class RecordingSink implements ReplySink {
  readonly tokens: number[] = []
  readonly chunks: Chunk[] = []
  readonly errors: BatonError[] = []
  readonly routed: RoutedEvent[] = []
  readonly phases: PhaseEvent[] = []

  onToken(tokenId: number): void {
    this.tokens.push(tokenId)
  }

  onChunk(chunk: Chunk): void {
    this.tokens.push(...chunk.tokenIds)
    this.chunks.push(chunk)
  }

  onError(error: BatonError): void {
    this.errors.push(error)
  }

  onPhase(event: PhaseEvent): void {
    this.phases.push(event)
    if (event.kind === 'routed') this.routed.push(event)
  }

  get ends(): number {
    return this.errors.length + this.chunks.filter(({ finish }) => finish !== undefined).length
  }

  get finish(): FinishReason | undefined {
    return this.chunks.at(-1)?.finish
  }
}

export function card(
  id: number,
  mode: DisaggregationMode = 'agg',
  more: Partial<Omit<WorkerCard, 'engine'>> & { engine?: Partial<EngineConfig> } = {},
): WorkerCard {
  return {
    workerId: workerIdOf(id),
    mode,
    host: 'localhost',
    port: 1,
    engineName: 'scripted',
    publishesKvEvents: mode !== 'decode',
    version: '0',
    ...more,
    engine: {
      model: 'm',
      kvCacheBlockSize: 4,
      totalKvBlocks: 1000,
      maxNumBatchedTokens: 1000,
      ...more.engine,
    },
  }
}

let requestCount = 0

export function request(
  tokens: number | readonly number[] = 16,
  routing: RoutingHints = {},
  more: Partial<GenerateRequest> = {},
): GenerateRequest {
  const ids = typeof tokens === 'number' ? Array.from({ length: tokens }, (_, i) => i) : tokens
  return {
    requestId: `r${++requestCount}`,
    model: 'm',
    tokenIds: Uint32Array.from(ids),
    sampling: {},
    stop: { maxTokens: 100 },
    output: {},
    eosTokenIds: [],
    routing,
    ...more,
  }
}
