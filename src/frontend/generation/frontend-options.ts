/**
 * What a frontend is composed of, and its limits. Everything is passed in; nothing is read from the
 * environment.
 */
import type { BatchOptions } from '../batches/batch-folder.ts'
import type { Clock, Random } from '../../base/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { ModelRouter } from '../../router/index.ts'
import type { EncodeOptions, ModelText, Tokenizer } from '../../text/index.ts'
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
  tokenizer: Tokenizer,
  text: string,
  options: EncodeOptions,
) => Promise<Uint32Array>

type Metrics = string | { readonly contentType: string; readonly body: string }

export interface FrontendOptions {
  readonly clock: Clock
  readonly random: Random
  /** Called once per version of a model, when its first worker joins. */
  readonly createRouter: (model: string, version: string) => ModelRouter
  /** Loads template and tokenizer of a model as the worker's card describes. */
  readonly loadText: (card: WorkerCard) => Promise<ModelText>
  /** Tokenises without delaying the event loop; used for texts of at least `offLoopCharacters`. */
  readonly encodeOffLoop?: EncodeOffLoop
  readonly observer?: FrontendObserver
  readonly fleetObserver?: FleetNewsObserver
  /**
   * Starts a span for every call in the client's trace or a new one. Absent: the client's `traceparent` is
   * passed on.
   */
  readonly beginTrace?: BeginTrace
  /** The body of `/metrics` for this `Accept` header; a plain string is in the Prometheus format. */
  readonly metrics?: (accept: string | undefined) => Metrics | Promise<Metrics>
  readonly version?: string
  /** Stores responses and conversations; absent: requests that need it are refused by name. */
  readonly state?: StateStore
  /** Stores files and runs batches; absent: both are refused by name. */
  readonly batches?: BatchOptions
  /** The valid keys, as hashes; null: no keys are required. */
  readonly keys?: () => readonly ApiKey[] | null
  /** The HTML of the console at `/`; null: there is none. */
  readonly consolePage?: () => string | null
  /**
   * True: the registry is told about connections (`workerReachable`, `workerUnreachable`), and a worker counts
   * only while it is connected. Absent: it counts as soon as its card is known.
   */
  readonly reportsLinks?: boolean
  readonly limits?: Partial<FrontendLimits>
  /** Sends an administrator's command to one worker. Absent: commands are refused. */
  readonly commandWorker?: CommandWorker
  /** Announces an administrator's setting to the other frontends, because it holds in all of them. */
  readonly onAdminNews?: (news: AdminNews) => void
  /** Authentication, CORS and the like, in the order in which a call passes them. */
  readonly middleware?: readonly Middleware[]
  /** The workers are foreign engines that accept forwarded requests. Absent: nothing is forwarded. */
  readonly forwarding?: ForwardingOptions
  /** Media in forwarded requests. Absent: up to 20 MiB each, and no address is fetched. */
  readonly media?: MediaOptions
}

export interface ForwardingOptions {
  /**
   * True: every request is forwarded. False: only what cannot be tokenised (images, audio, documents) and
   * endpoints that only the engine has.
   */
  readonly always: boolean
  /** Requests are routed by tokens of the model's own tokenizer, not by their bytes. */
  readonly hasTokenizer: boolean
}

export interface FrontendLimits {
  /** Further attempts when a worker is lost; 0 turns migration off. */
  readonly migrationLimit: number
  /** Milliseconds that a running request waits while no worker is registered. */
  readonly migrationWaitMs: number
  readonly migrationMaxSequenceTokens: number
  /** Most requests in flight, over all models. More are refused with `capacity.exhausted`. */
  readonly requestsMax: number
  readonly offLoopCharacters: number
  /** The limit for the body of a request that generates or tokenises. */
  readonly bodyBytesMax: number
  /** Limit for template and tokenizer. */
  readonly preprocessMs: number
  /** From sending to the first item of the reply; a backstop for the router's own deadlines. */
  readonly firstItemMs: number
  /** Most milliseconds without an item during a reply. */
  readonly silenceMs: number
  /** A stream that was silent for so long gets a comment, so that no proxy closes it. */
  readonly keepAliveMs: number
  /**
   * A stream that waits longer than this for its first token starts with status 200; a later error is then an
   * event.
   */
  readonly commitAfterMs: number
  /** A model is forgotten this long after its last worker left; until then requests get 503, afterwards 404. */
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
