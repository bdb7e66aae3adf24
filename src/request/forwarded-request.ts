/**
 * A client's original HTTP request that is forwarded unchanged to an upstream engine, and the engine's reply.
 *
 * It accompanies the token ids that the router uses, and is sent only to workers whose card announces forwarding
 * (`canForward`).
 */
import { joinedBytes } from '../base/index.ts'
import type { BatonError } from '../base/index.ts'
import type { WorkerCard } from './worker-card.ts'

export interface ForwardedRequest {
  readonly method: string
  /** Path including the query string. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** The client asked for a stream. Absent: not known. */
  readonly isStream?: boolean
  /** The request body for a prefill leg (one token), streamed or not. Absent: the request cannot be split into legs. */
  readonly prefillBody?: (isStreamed?: boolean) => Uint8Array
  readonly sink: ForwardSink
  /** An error as an event of the client's API, for a stream that has started. ASCII. */
  readonly errorEvent: (error: BatonError) => string
}

export interface ForwardHead {
  readonly status: number
  /** Headers that may be returned to the client; names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/** Back-pressure: lets a client that reads slowly pause the engine's stream. */
export interface ForwardFlow {
  pause(): void
  resume(): void
}

/** Receives the reply; called before the end is reported to the request's `ReplySink`. */
export interface ForwardSink {
  /**
   * The answer is about to begin, and the engine has been sent all of the request. Called before `onWhole` or
   * `onHead`; not called if the plane cannot tell.
   */
  onSent?(): void
  /** A complete small reply; a string if it is pure ASCII. Only the end follows. */
  onWhole(head: ForwardHead, body: string | Uint8Array): void
  /** A stream starts; `isEvents`: it consists of server-sent events. */
  onHead(head: ForwardHead, isEvents: boolean, flow: ForwardFlow): void
  /**
   * Bytes as a string with one character per byte; server-sent events are never split. `isAlone`: nothing else
   * arrives in this turn of the event loop, so they need not be buffered until its end.
   */
  onBytes(text: string, isAlone?: boolean): void
}

/** True if a client's original request can be sent to the worker. */
export function canForward({ engine }: WorkerCard): boolean {
  return engine.runtimeData?.['forwards'] === true
}

/** True if the engine separates its prompt cache by a `cache_salt` in the request body. */
export function takesSalts({ engine }: WorkerCard): boolean {
  const kind = engine.runtimeData?.['upstream_kind']
  return kind === 'vllm' || kind === 'sglang'
}

/** A JSON object with the given members appended; all other bytes stay unchanged. */
export function withFields(body: Uint8Array, members: string): Uint8Array {
  const end = body.lastIndexOf(CLOSE_OBJECT)
  let before = end - 1
  while (before >= 0 && (body[before] as number) <= BLANK) before--
  const comma = body[before] === OPEN_OBJECT ? '' : ','
  const added = new TextEncoder().encode(comma + members)
  return joinedBytes([body.subarray(0, end), added, body.subarray(end)])
}

const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const BLANK = 0x20
