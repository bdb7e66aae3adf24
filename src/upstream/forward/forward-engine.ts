/**
 * A foreign server to which requests are only forwarded: Baton has no tokens of it, so this engine generates nothing
 * itself. It reports the server's models and load and whether it is still there, and beside its engine it passes on
 * what a frontend forwards.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, WorkerId } from '../../base/index.ts'
import type { Engine, EngineMetric, EngineObserver, GenerateContext } from '../../engine/index.ts'
import type {
  Chunk,
  DisaggregationMode,
  EngineConfig,
  GenerateRequest,
} from '../../request/index.ts'
import { askJson } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { clearCache } from '../client/clear-cache.ts'
import { adapterNames, modelEntries, modelsAndAdapters } from '../client/model-list.ts'
import { createDialect } from '../dialects/dialect-table.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'
import { AdapterNews } from '../watch/adapter-news.ts'
import { HandOverCounts } from '../watch/hand-over-counts.ts'
import { detectKind } from '../kind/upstream-kind.ts'
import { serverIdentity } from '../watch/server-identity.ts'
import type { ServerIdentity } from '../watch/server-identity.ts'
import { upstreamMetrics } from '../watch/upstream-metrics.ts'
import { UpstreamWatch } from '../watch/upstream-watch.ts'
import { ForwardSlots } from './forward-slots.ts'
import type { ForwardTarget } from './forward-target.ts'
import { crossingOf, forwardedChunks } from './remote-forward.ts'

export interface ForwardEngineOptions {
  /** The caller's client, through which it also forwards; closed by `cleanup`. */
  readonly client: UpstreamClient
  readonly clock: Clock
  /** Absent: detected. */
  readonly kind?: UpstreamKind
  readonly mode: DisaggregationMode
  readonly servedModelName?: string
  /** The batch size of each rank. Absent: what the server reports. */
  readonly maxNumSeqs?: number
  readonly onLost: (error: BatonError) => void
  readonly watchMs?: number
  /** Called for limitations, with a text for the operator. */
  readonly onNote?: (note: string) => void
  /** For llama-servers with a role: the folder of the files for KV transfer. */
  readonly slotFolder?: string
}

function targetOf(options: ForwardEngineOptions, kind: UpstreamKind): ForwardTarget {
  const { client, clock, mode, slotFolder } = options
  const hasSlots = kind === 'llama-server' && mode !== 'agg' && slotFolder !== undefined
  const slots = hasSlots ? { slots: new ForwardSlots(client, slotFolder) } : {}
  return { client, clock, mode, kind, handOvers: new HandOverCounts(), ...slots }
}

const ASK_MS = 10_000
const NEVER = new AbortController().signal

export class ForwardEngine implements Engine {
  readonly hasOtherClients = true
  readonly #options: ForwardEngineOptions
  #observer: EngineObserver | null = null
  #watch: UpstreamWatch | null = null
  readonly #adapters = new AdapterNews()
  #target: ForwardTarget
  #chatTemplate: string | null = null

  constructor(options: ForwardEngineOptions) {
    this.#options = options
    this.#target = targetOf(options, options.kind ?? 'openai')
  }

  /** The target of forwarded requests; for an engine whose kind is detected, available after the start. */
  get target(): ForwardTarget {
    return this.#target
  }

  /** The server's chat template, which it renders with; null: it does not report it. */
  get chatTemplate(): string | null {
    return this.#chatTemplate
  }

  async start(_workerId: WorkerId): Promise<EngineConfig> {
    const { client, clock, servedModelName, onLost, watchMs = 1000 } = this.#options
    const kind = this.#options.kind ?? (await detectKind(client)).kind
    if (kind !== this.#target.kind) this.#target = targetOf(this.#options, kind)
    await this.#target.slots?.open()
    const list = await askJson(client, '/v1/models', { deadlineMs: ASK_MS })
    const entries = modelEntries(list).filter(({ id }) => typeof id === 'string')
    const listed = modelsAndAdapters(entries)
    const [model, ...others] = listed.models.map(({ id }) => String(id))
    const adapters = adapterNames(entries)
    const name = model ?? servedModelName
    if (name === undefined) {
      throw new BatonError(
        'config.invalid',
        `the engine at ${client.url.text} does not report its model: give --served-model-name`,
      )
    }
    // Needed only for its questions about the server.
    const onNote = (note: string): void => this.#options.onNote?.(note)
    const dialect = await createDialect(kind, { mode: 'agg', clock, onNote })
    const facts = kind === 'openai' ? null : await dialect.describe(client, NEVER)
    this.#chatTemplate = facts?.chatTemplate ?? null
    const askIdentity = (deadlineMs: number): Promise<ServerIdentity | null> =>
      serverIdentity(client, { dialect, model: name, deadlineMs })
    const identity = await askIdentity(ASK_MS)
    this.#watch = new UpstreamWatch({
      client,
      clock,
      dialect,
      identity,
      askIdentity,
      adapters: this.#adapters.from(adapters),
      everyMs: watchMs,
      onLoad: (report) => this.#observer?.load(report),
      onNote,
      onUnavailable: (error) => this.#observer?.unavailable?.(error),
      onLost,
    })
    this.#watch.start()
    const contextLength = entries[0]?.['max_model_len'] ?? facts?.contextLength
    const { bootstrapHost, bootstrapPort, ranks } = facts ?? {}
    const { maxNumSeqs = facts?.sequences } = this.#options
    return {
      model: name,
      ...(servedModelName === undefined ? {} : { servedModelName }),
      ...(others.length === 0 ? {} : { modelAliases: others }),
      ...(adapters.length === 0 ? {} : { loraAdapters: adapters }),
      ...(typeof contextLength === 'number' ? { contextLength } : {}),
      ...(maxNumSeqs === undefined ? {} : { maxNumSeqs }),
      ...(ranks === undefined ? {} : { dataParallelSize: ranks }),
      ...(bootstrapHost === undefined ? {} : { bootstrapHost }),
      ...(bootstrapPort === undefined ? {} : { bootstrapPort }),
      runtimeData: {
        upstream_kind: kind,
        upstream_url: client.url.text,
        forwards: true,
        forwarded: true,
      },
    }
  }

  async *generate(request: GenerateRequest, context: GenerateContext): AsyncIterable<Chunk> {
    const crossing = crossingOf(request)
    if (crossing !== null) {
      return yield* forwardedChunks(this.#target, crossing, request, context)
    }
    throw new BatonError(
      'request.unsupported_parameter',
      'this engine accepts forwarded requests only: it reports no tokens',
    )
  }

  readonly controls = {
    clear_kv_blocks: async (): Promise<unknown> => {
      const { client, clock, kind } = this.#target
      return await clearCache(client, await createDialect(kind, { mode: 'agg', clock }))
    },
  }

  observe(observer: EngineObserver): void {
    this.#observer = observer
    this.#adapters.tell(observer)
  }

  metrics(): readonly EngineMetric[] {
    const loads = this.#watch?.loads ?? []
    return upstreamMetrics(this.#options.client, { handOvers: this.#target.handOvers, loads })
  }

  async cleanup(): Promise<void> {
    this.#watch?.close()
    this.#options.client.close()
    await this.#target.slots?.close()
  }
}
