/**
 * A dialect: the differences between kinds of servers in how a request is written, how its answer is read, and what
 * the server reports about itself. Everything else is in `UpstreamEngine`.
 */
import type { BatonError } from '../../base/index.ts'
import type { LoadReport } from '../../kv/index.ts'
import type {
  Chunk,
  DisaggregationMode,
  EngineConfig,
  EngineFeature,
  GenerateRequest,
  PrefillResult,
  TokenLogprobs,
} from '../../request/index.ts'
import type { UpstreamRequest } from '../client/upstream-call.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import type { KvEventPlace } from '../events/kv-event-feed.ts'
import type { LostTokens } from './lost-tokens.ts'

/** What a server reports about itself at the start. */
export interface UpstreamFacts {
  /** The model name that the server expects. */
  readonly model: string
  readonly modelAliases?: readonly string[]
  readonly loraAdapters?: readonly string[]
  readonly contextLength?: number
  readonly vocabSize?: number
  /** A path as the server sees it, possibly on another machine. */
  readonly modelPath?: string
  readonly chatTemplate?: string
  /** Requests that it computes at the same time. */
  readonly sequences?: number
  readonly kvBlockTokens?: number
  readonly kvBlocks?: number
  readonly ranks?: number
  readonly features: readonly EngineFeature[]
  readonly bootstrapHost?: string
  readonly bootstrapPort?: number
  readonly runtimeData?: Readonly<Record<string, unknown>>
}

/**
 * Tokens that a server computed without reporting their ids: the number of tokens, and their text together with that
 * of the reported one.
 */
export interface LostText {
  readonly text: string
  readonly count: number
}

/** A piece of an answer; every field is optional. */
export interface Piece {
  readonly tokenIds: readonly number[]
  /** For servers that send no ids. */
  readonly text?: string
  /** Comes before `tokenIds`. */
  readonly lost?: LostText
  readonly logprobs?: readonly TokenLogprobs[]
  /** `stop`: the model's own end, either a stop token or a stop text; the last token tells which. */
  readonly finish?: 'stop' | 'length' | 'content_filter'
  readonly stopReason?: number | string
  readonly promptTokens?: number
  readonly completionTokens?: number
  readonly cachedTokens?: number
  readonly prefillResult?: PrefillResult
  /** Whether transferred KV was used; absent: unknown. */
  readonly kvMoved?: boolean
  /** The server failed in the middle of its answer. */
  readonly error?: BatonError
}

/** Parses one answer: the events of a stream, or one whole body. */
export interface PieceReader {
  /** `json` is null for an event that is not JSON. */
  read(json: unknown): Piece | null
}

export interface WrittenRequest {
  readonly http: UpstreamRequest
  readonly reader: PieceReader
  /** The answer is one JSON document, not a stream. */
  readonly isWhole?: boolean
  /** Called between the last token and the end, for work that must precede the report of the end. */
  readonly complete?: () => Promise<Pick<Chunk, 'prefillResult' | 'engineData'>>
  /** Passed on as soon as the request was sent, so that decode may start. */
  readonly meeting?: PrefillResult
  /** The same request for another route, when the server refuses this one with such a status. */
  readonly instead?: { readonly statuses: readonly number[]; readonly written: WrittenRequest }
  /** Called when the server has accepted the request. */
  readonly onAccepted?: () => void
  /** Releases what the request holds, for example a slot; called once, however it ends. */
  readonly release?: () => void
  /**
   * Another server waits for this request with its KV, so it must be sent even when the answer is no longer wanted.
   */
  readonly mustArrive?: boolean
}

export interface Dialect {
  /** Requests may name a LoRA adapter of its list of models. */
  readonly hasAdapters?: boolean
  /** The server supports a minimum number of tokens. */
  readonly knowsMinTokens: boolean
  /** Rejects with `backend.worker_unavailable` when the server is up but not ready. */
  describe(client: UpstreamClient, signal: AbortSignal): Promise<UpstreamFacts>
  /** May wait, for example for a slot; rejects with a typed error. */
  write(request: GenerateRequest, context: WriteContext): WrittenRequest | Promise<WrittenRequest>
  /**
   * What was learned at the start and another server at the address may have otherwise, by name: only what is known
   * now, and the same for equal servers.
   */
  identity?(client: UpstreamClient, deadlineMs: number): Promise<Readonly<Record<string, unknown>>>
  /** Null: the server does not report it. */
  load?(client: UpstreamClient, deadlineMs: number): Promise<readonly LoadReport[] | null>
  /** The server's ids of a text, with control tokens recognised; null: it has no such route. */
  tokenize?(client: UpstreamClient, text: string): Promise<readonly number[] | null>
  /** The same for a conversation, rendered by the server; null: it has no such route. */
  tokenizeChat?(
    client: UpstreamClient,
    messages: readonly unknown[],
  ): Promise<readonly number[] | null>
  /** Where KV events are published; empty: the server announces none. */
  kvEventPlaces?(client: UpstreamClient, signal: AbortSignal): Promise<readonly KvEventPlace[]>
  /** Additions to the engine's card beyond the facts. */
  config?(facts: UpstreamFacts): Partial<EngineConfig>
  /** Clears its prompt cache; absent: it has no such route. */
  clearCache?(client: UpstreamClient): Promise<unknown>
  close?(): Promise<void>
}

export interface WriteContext {
  readonly client: UpstreamClient
  readonly facts: UpstreamFacts
  readonly mode: DisaggregationMode
  readonly signal: AbortSignal
  /** Tokens as text including control tokens, for servers that accept no ids. */
  readonly decode: (tokenIds: Uint32Array) => string
  /** Finds ids that a server does not report; null: no tokenizer is available here. */
  readonly lost: LostTokens | null
}
