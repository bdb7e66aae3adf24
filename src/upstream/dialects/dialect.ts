/**
 * What differs from one kind of server to the next: how a request is written, how its answer is read, what the server
 * reports about itself. Everything else is `UpstreamEngine`'s.
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
import type { UpstreamClient, UpstreamRequest } from '../client/upstream-client.ts'
import type { KvEventPlace } from '../events/kv-event-feed.ts'
import type { LostTokens } from './lost-tokens.ts'

/** What a server reported about itself when it was found. */
export interface UpstreamFacts {
  /** The name that the server wants to hear. */
  readonly model: string
  readonly modelAliases?: readonly string[]
  readonly loraAdapters?: readonly string[]
  readonly contextLength?: number
  readonly vocabSize?: number
  /** A path as the server sees it; it may be of another machine. */
  readonly modelPath?: string
  readonly chatTemplate?: string
  /** Requests that it computes at once. */
  readonly sequences?: number
  readonly kvBlockTokens?: number
  readonly kvBlocks?: number
  readonly ranks?: number
  readonly features: readonly EngineFeature[]
  readonly bootstrapHost?: string
  readonly bootstrapPort?: number
  readonly runtimeData?: Readonly<Record<string, unknown>>
}

/** Tokens that a server has computed and not told: their text with that of the one that it told, and how many they are. */
export interface LostText {
  readonly text: string
  readonly count: number
}

/** A piece of an answer, as far as it says anything. */
export interface Piece {
  readonly tokenIds: readonly number[]
  /** For servers that give no ids. */
  readonly text?: string
  /** Before `tokenIds`. */
  readonly lost?: LostText
  readonly logprobs?: readonly TokenLogprobs[]
  /** `stop`: the model's own end, a stop token or a stop text; distinguished by what the last token was. */
  readonly finish?: 'stop' | 'length' | 'content_filter'
  readonly stopReason?: number | string
  readonly promptTokens?: number
  readonly completionTokens?: number
  readonly cachedTokens?: number
  readonly prefillResult?: PrefillResult
  /** Whether KV that was handed over has been used; absent: cannot tell. */
  readonly kvMoved?: boolean
  /** The server failed in the middle of its answer. */
  readonly error?: BatonError
}

/** Reads one answer: events of a stream, or one whole body. */
export interface PieceReader {
  /** `json` is null for an event that is not JSON. */
  read(json: unknown): Piece | null
}

export interface WrittenRequest {
  readonly http: UpstreamRequest
  readonly reader: PieceReader
  /** The answer is one JSON document, not a stream. */
  readonly isWhole?: boolean
  /** Between the last token and the end: what has to be done before the end may be told. */
  readonly complete?: () => Promise<Pick<Chunk, 'prefillResult' | 'engineData'>>
  /** Told as soon as the request is on its way: decode may begin. */
  readonly meeting?: PrefillResult
  /** Gives back what the request holds, for example a slot; called once, however it ends. */
  readonly release?: () => void
  /** KV waits for this request at another server: it has to arrive even when the answer is no longer wanted. */
  readonly mustArrive?: boolean
}

export interface Dialect {
  /** The server can be told a minimum of tokens. */
  readonly knowsMinTokens: boolean
  /** The server is there but not ready: rejects with `backend.worker_unavailable`. */
  describe(client: UpstreamClient, signal: AbortSignal): Promise<UpstreamFacts>
  /** May wait, for example for a slot; rejects with a typed error. */
  write(request: GenerateRequest, context: WriteContext): WrittenRequest | Promise<WrittenRequest>
  /** Null: the server does not tell. */
  load?(client: UpstreamClient, deadlineMs: number): Promise<readonly LoadReport[] | null>
  /** Ids of a text as the server sees it, control tokens recognised; null: it has no such route. */
  tokenize?(client: UpstreamClient, text: string): Promise<readonly number[] | null>
  /** The same of a conversation as the server renders it; null: it has no such route. */
  tokenizeChat?(
    client: UpstreamClient,
    messages: readonly unknown[],
  ): Promise<readonly number[] | null>
  /** Where KV events are published; empty: nowhere that the server tells of. */
  kvEventPlaces?(client: UpstreamClient, signal: AbortSignal): Promise<readonly KvEventPlace[]>
  /** What the engine's card says beyond the facts. */
  config?(facts: UpstreamFacts): Partial<EngineConfig>
  /** Forgets what it has cached of prompts; absent: it has no such route. */
  clearCache?(client: UpstreamClient): Promise<unknown>
  close?(): Promise<void>
}

export interface WriteContext {
  readonly client: UpstreamClient
  readonly facts: UpstreamFacts
  readonly mode: DisaggregationMode
  readonly signal: AbortSignal
  /** Tokens as text, control tokens included: for servers that take no ids. */
  readonly decode: (tokenIds: Uint32Array) => string
  /** Finds ids that a server does not tell; null: no tokenizer is here. */
  readonly lost: LostTokens | null
}
