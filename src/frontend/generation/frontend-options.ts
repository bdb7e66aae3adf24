/**
 * What a frontend is made of, and its bounds. All of it is handed in; nothing is read from the outside.
 */
import type { BatchOptions } from '../batches/batch-folder.ts'
import type { Clock, Random } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ModelRouter } from '../../router/index.ts'
import type { EncodeOptions, ModelText } from '../../text/index.ts'
import type { ApiKey } from '../access/api-key.ts'
import type { MediaOptions } from '../media/media-options.ts'
import type { Middleware } from '../http/middleware.ts'
import type { StateStore } from '../state/state-store.ts'
import type { FleetNewsObserver } from '../models/fleet-news.ts'
import type { AdminNews, CommandWorker } from '../models/admin-news.ts'
import type { BeginTrace } from './call-record.ts'
import type { FrontendObserver } from './frontend-event.ts'

type EncodeOffLoop = (
  card: WorkerCard,
  text: string,
  options: EncodeOptions,
) => Promise<Uint32Array>

type Metrics = string | { readonly contentType: string; readonly body: string }

export interface FrontendOptions {
  readonly clock: Clock
  readonly random: Random
  /** Called once per version of a model, when its first worker joins. */
  readonly createRouter: (model: string, version: string) => ModelRouter
  /** Template and tokenizer of a model, from what the worker's card says. */
  readonly loadText: (card: WorkerCard) => Promise<ModelText>
  /** Tokenises off the event loop; used for texts of at least `offLoopCharacters`. */
  readonly encodeOffLoop?: EncodeOffLoop
  readonly observer?: FrontendObserver
  readonly fleetObserver?: FleetNewsObserver
  /** Gives every call a span of its own in the client's trace or a new one. Absent: the client's `traceparent` is handed on. */
  readonly beginTrace?: BeginTrace
  /** `/metrics`, for a scrape with this `Accept`; a text alone is Prometheus'. */
  readonly metrics?: (accept: string | undefined) => Metrics | Promise<Metrics>
  readonly version?: string
  /** Keeps responses and conversations; absent: what needs them is refused by name. */
  readonly state?: StateStore
  /** Keeps files and runs batches; absent: both are refused by name. */
  readonly batches?: BatchOptions
  /** The keys that are valid, without themselves; null: none is asked for. */
  readonly keys?: () => readonly ApiKey[] | null
  /** The HTML of the console at `/`; null: there is none. */
  readonly consolePage?: () => string | null
  /**
   * The registry is notified of connections (`workerReachable`, `workerUnreachable`), and a worker counts only while one
   * stands. Absent: it counts from its card on.
   */
  readonly reportsLinks?: boolean
  readonly limits?: Partial<FrontendLimits>
  /** An administrator's command to one worker. Absent: there are none. */
  readonly commandWorker?: CommandWorker
  /** What an administrator has said holds in all frontends: told to the others. */
  readonly onAdminNews?: (news: AdminNews) => void
  /** Authentication, CORS and the like, in the order in which a call meets them. */
  readonly middleware?: readonly Middleware[]
  /** The workers are foreign engines to which a client's request can go as it came. Absent: nothing is forwarded. */
  readonly forwarding?: ForwardingOptions
  /** Images, audio and documents in what is forwarded. Absent: up to 20 MiB each, and no address is fetched. */
  readonly media?: MediaOptions
}

export interface ForwardingOptions {
  /** Every request; otherwise only what has no form in tokens: images, audio, documents, endpoints of the engine's own. */
  readonly always: boolean
  /** Requests are routed by the tokens of the model's own tokenizer, not by their bytes. */
  readonly hasTokenizer: boolean
}

export interface FrontendLimits {
  /** Further attempts when a worker is lost; 0 turns migration off. */
  readonly migrationLimit: number
  /** How long a request that was running waits while no worker is registered. */
  readonly migrationWaitMs: number
  readonly migrationMaxSequenceTokens: number
  /** Requests in flight, all models together. More are refused with `capacity.exhausted`. */
  readonly requestsMax: number
  readonly offLoopCharacters: number
  /** The body of a request that generates or tokenises. */
  readonly bodyBytesMax: number
  /** Template and tokenizer. */
  readonly preprocessMs: number
  /** From sending to the first item of the reply; a safety net over the router's own deadlines. */
  readonly firstItemMs: number
  /** Without any item in the middle of a reply. */
  readonly silenceMs: number
  /** A stream that has been silent this long gets a comment, so that no proxy on the way closes it. */
  readonly keepAliveMs: number
  /** A stream whose first token takes longer than this is begun with 200; a later error is then an event. */
  readonly commitAfterMs: number
  /** A model whose last worker has left is forgotten after so long; until then it is 503, afterwards 404. */
  readonly modelForgetMs: number
}

export const DEFAULT_LIMITS: FrontendLimits = {
  migrationLimit: 3,
  migrationWaitMs: 10_000,
  migrationMaxSequenceTokens: Number.MAX_SAFE_INTEGER,
  requestsMax: 10_000,
  offLoopCharacters: 64_000,
  bodyBytesMax: 45 * 1024 * 1024,
  preprocessMs: 60_000,
  firstItemMs: 300_000,
  silenceMs: 180_000,
  keepAliveMs: 15_000,
  commitAfterMs: 30_000,
  modelForgetMs: 60_000,
}
