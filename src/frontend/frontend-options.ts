/**
 * What a frontend is made of, and its bounds. All of it is handed in; nothing is read from the outside.
 */
import type { Clock, Random } from '../base/index.ts'
import type { WorkerCard } from '../request/index.ts'
import type { ModelRouter } from '../router/index.ts'
import type { EncodeOptions, ModelText } from '../text/index.ts'
import type { FrontendObserver } from './frontend-observer.ts'

type EncodeOffLoop = (
  card: WorkerCard,
  text: string,
  options: EncodeOptions,
) => Promise<Uint32Array>

export interface FrontendOptions {
  readonly clock: Clock
  readonly random: Random
  /** Called once per model, when its first worker joins. */
  readonly createRouter: (model: string) => ModelRouter
  /** Template and tokenizer of a model, from what the worker's card says. */
  readonly loadText: (card: WorkerCard) => Promise<ModelText>
  /** Tokenises off the event loop; used for texts of at least `offLoopCharacters`. */
  readonly encodeOffLoop?: EncodeOffLoop
  readonly observer?: FrontendObserver
  /** The text of `/metrics`. */
  readonly metrics?: () => string | Promise<string>
  readonly version?: string
  readonly limits?: Partial<FrontendLimits>
}

export interface FrontendLimits {
  /** Further attempts when a worker is lost; 0 turns migration off. */
  readonly migrationLimit: number
  readonly migrationMaxSequenceTokens: number
  /** Requests in flight, all models together. More are refused with `capacity.exhausted`. */
  readonly requestsMax: number
  readonly offLoopCharacters: number
  /** Template and tokenizer. */
  readonly preprocessMs: number
  /** From sending to the first item of the reply; a safety net over the router's own deadlines. */
  readonly firstItemMs: number
  /** Without any item in the middle of a reply. */
  readonly silenceMs: number
  /** A stream that has been silent this long gets a comment, so that nobody on the way closes it. */
  readonly keepAliveMs: number
  /** A stream whose first token takes longer than this is begun with 200; a later error is then an event. */
  readonly commitAfterMs: number
}

export const DEFAULT_LIMITS: FrontendLimits = {
  migrationLimit: 3,
  migrationMaxSequenceTokens: Number.MAX_SAFE_INTEGER,
  requestsMax: 10_000,
  offLoopCharacters: 64_000,
  preprocessMs: 60_000,
  firstItemMs: 300_000,
  silenceMs: 180_000,
  keepAliveMs: 15_000,
  commitAfterMs: 30_000,
}
