/**
 * Workers that hand over KV through real sockets, with an engine that only stores blocks. Everything is closed
 * after each test.
 */
import { onTestFinished } from 'vitest'
import { KvBlockStore } from '../../src/engine/index.ts'
import type { Engine, KvBlockSource } from '../../src/engine/index.ts'
import { finishChunk, tokenChunk, usageOf } from '../../src/request/index.ts'
import type {
  Chunk,
  DisaggregationMode,
  GenerateRequest,
  KvOffer,
  WorkerCard,
} from '../../src/request/index.ts'
import type { WorkerEvent, WorkerLimits } from '../../src/worker/index.ts'
import { RecordedReply } from './recorded-reply.ts'
import { MemoryDiscovery } from '../../src/discovery/memory-discovery.ts'
import { HostedWorker } from '../../src/host/worker/hosted-worker.ts'
import { WorkerMetrics } from '../../src/host/observe/worker-metrics.ts'

export const BLOCK_TOKENS = 4
export const BYTES_PER_TOKEN = 8

/** Computes nothing; stores one block of bytes per block of tokens, like an engine with KV in host memory. */
export class BlockEngine implements Engine {
  readonly kvBlocks: KvBlockStore
  readonly computed: number[] = []

  constructor(capacityBytes = 1 << 20, fingerprint = 'block-engine') {
    this.kvBlocks = new KvBlockStore({
      fingerprint,
      blockTokens: BLOCK_TOKENS,
      bytesPerToken: BYTES_PER_TOKEN,
      capacityBytes,
    })
  }

  start(): Promise<{ model: string }> {
    return Promise.resolve({ model: 'blocks' })
  }

  async *generate(request: GenerateRequest): AsyncGenerator<Chunk> {
    const { kvBlocks } = this
    const prompt = request.tokenIds.length
    const { cacheSalt, loraName } = request.routing
    const held = kvBlocks.pin(request.tokenIds, cacheSalt, loraName)
    this.computed.push(prompt - 1 - held.tokenCount)
    for (let count = held.tokenCount; count < prompt - 1;) {
      const size = Math.min(BLOCK_TOKENS, prompt - 1 - count)
      putNext(kvBlocks, request, count, size)
      count += size
    }
    held.release()
    await Promise.resolve()
    const token = request.tokenIds.reduce((sum, id) => (sum * 31 + id) & 0xffff, 7)
    if (request.stop.maxTokens !== 1) yield tokenChunk(token)
    const usage = usageOf(prompt, request.stop.maxTokens === 1 ? 0 : 1)
    yield finishChunk('length', { usage })
  }

  cleanup(): Promise<void> {
    return Promise.resolve()
  }
}

/** Offers its KV before the last blocks of a prompt exist, and then waits until the test continues it. */
export class AheadEngine extends BlockEngine {
  readonly #goOn: Promise<void>

  /** If `goOn` rejects, the engine fails. */
  constructor(goOn: Promise<void>) {
    super()
    this.#goOn = goOn
    goOn.catch(() => undefined)
  }

  override async *generate(request: GenerateRequest): AsyncGenerator<Chunk> {
    const half = BLOCK_TOKENS * 2
    for (let from = 0; from < half; from += BLOCK_TOKENS)
      putNext(this.kvBlocks, request, from, BLOCK_TOKENS)
    yield { tokenIds: [], prefillResult: { cachedTokens: 3, meetsDecode: true } }
    await this.#goOn
    yield* super.generate(request)
  }
}

/** The worker's pins throw, not those that the engine takes while it generates. */
export function breakingPins(engine: BlockEngine): BlockEngine {
  const store = engine.kvBlocks
  const pin = store.pin.bind(store)
  let generating = false
  const generate = engine.generate.bind(engine)
  engine.generate = async function* (request) {
    generating = true
    for await (const chunk of generate(request)) {
      generating = false
      yield chunk
    }
  }
  store.pin = (...given) => {
    const taken = pin(...given)
    if (generating) return taken
    return {
      ...taken,
      release: (isStillRead) => {
        taken.release(isStillRead)
        throw new TypeError('release broke')
      },
    }
  }
  return engine
}

/** The worker gets blocks or pins of this kind, not the engine while it generates. */
export function breakingBlocks(change: Partial<KvBlockSource>): BlockEngine {
  const engine = new BlockEngine()
  const generate = engine.generate.bind(engine)
  const store = engine.kvBlocks
  const sound = { pin: store.pin.bind(store), get: store.get.bind(store) }
  engine.generate = async function* (request) {
    Object.assign(store, sound)
    for await (const chunk of generate(request)) {
      Object.assign(store, change)
      yield chunk
      Object.assign(store, sound)
    }
  }
  return engine
}

function putNext(store: KvBlockStore, request: GenerateRequest, from: number, size: number): void {
  const { tokenIds, routing } = request
  const keys = store.keysOf(tokenIds, tokenIds.length - 1, routing.cacheSalt, routing.loraName)
  const index = from / BLOCK_TOKENS
  const bytes = new Uint8Array(size * BYTES_PER_TOKEN).fill(index + 1)
  store.put(keys[2 * index] ?? 0, keys[2 * index + 1] ?? 0, size, bytes)
}

export function requestOf(
  requestId: string,
  promptTokens: number,
  change: Partial<GenerateRequest> = {},
): GenerateRequest {
  return {
    requestId,
    model: 'blocks',
    tokenIds: Uint32Array.from({ length: promptTokens }, (_, i) => 100 + i),
    sampling: {},
    stop: { maxTokens: 4 },
    output: {},
    eosTokenIds: [],
    routing: {},
    ...change,
  }
}

interface Started<E extends Engine> {
  readonly engine: E
  readonly hosted: HostedWorker
  readonly card: WorkerCard
  readonly events: WorkerEvent[]
}

export async function startWorker<E extends Engine>(
  engine: E,
  mode: DisaggregationMode,
  limits: Partial<WorkerLimits> = {},
): Promise<Started<E>> {
  const events: WorkerEvent[] = []
  const hosted = new HostedWorker({
    engine,
    engineName: 'test',
    mode,
    plane: { kind: 'tcp', host: '127.0.0.1', port: 0 },
    discovery: new MemoryDiscovery(),
    version: '0.0.0',
    limits,
    shutdown: { routerGraceMs: 0, kvTransferMs: 0 },
    observe: (event) => events.push(event),
  })
  // Not a hook at the top of this module: that would be one of the first test file in its process only.
  onTestFinished(async () => void (await hosted.stop()))
  const card = await hosted.start()
  return { engine, hosted, card, events }
}

export async function serve(to: Started<Engine>, request: GenerateRequest): Promise<RecordedReply> {
  const reply = new RecordedReply()
  to.hosted.worker.serve(request, reply)
  await reply.ended
  return reply
}

export async function prefill(from: Started<Engine>, request: GenerateRequest): Promise<KvOffer> {
  const reply = await serve(from, { ...request, stop: { maxTokens: 1 } })
  const offer = reply.terminal?.prefillResult?.kvOffer
  if (offer === undefined) throw new Error(`no offer: ${reply.failure?.message}`)
  return offer
}

export const decodeOf = (request: GenerateRequest, kvOffer: KvOffer): GenerateRequest => ({
  ...request,
  prefillResult: { kvOffer },
})

export const only = <K extends WorkerEvent['kind']>(events: WorkerEvent[], kind: K) =>
  events.filter((event): event is Extract<WorkerEvent, { kind: K }> => event.kind === kind)

/** The metric that these events add up to. */
export async function heldBytesOf(events: readonly WorkerEvent[]): Promise<number> {
  const health = { live: true, ready: true, state: 'running', inFlight: 0, openOffers: 0 } as const
  const metrics = new WorkerMetrics(() => health)
  for (const event of events) metrics.observe(event)
  return Number(/^baton_worker_kv_held_bytes (\d+)$/m.exec(await metrics.text())?.[1])
}
