/**
 * A client's own HTTP request that goes to a foreign engine as it came, and the engine's answer on its way back.
 *
 * It travels beside the tokens that the router routes by, to workers whose card says that they forward (`canForward`).
 */
import { joinedBytes } from '../base/index.ts'
import type { BatonError } from '../base/index.ts'
import type { WorkerCard } from './worker-card.ts'

export interface ForwardedRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** The same request for a prefill leg: one token, `isStreamed` or whole. Absent: it cannot be divided into legs. */
  readonly prefillBody?: (isStreamed?: boolean) => Uint8Array
  readonly sink: ForwardSink
  /** An error as an event of the client's API, for a stream that has begun. ASCII. */
  readonly errorEvent: (error: BatonError) => string
}

export interface ForwardHead {
  readonly status: number
  /** Those that may be shown; names in lower case. */
  readonly headers: Readonly<Record<string, string>>
}

/** How a reader that is slower than the engine holds it back. */
export interface ForwardFlow {
  pause(): void
  resume(): void
}

/** Told of the answer before the `ReplySink` of the request is told of its end. */
export interface ForwardSink {
  /** The answer is whole and small; a text when all of it is ASCII. Nothing but the end follows. */
  onWhole(head: ForwardHead, body: string | Uint8Array): void
  /** A stream begins; `isEvents`: server-sent events. */
  onHead(head: ForwardHead, isEvents: boolean, flow: ForwardFlow): void
  /**
   * Bytes as a text of one character each, at the end of an event whenever there are events. `isAlone`: nothing else comes in
   * this turn, so they need not wait for its end.
   */
  onBytes(text: string, isAlone?: boolean): void
}

/** A client's own request can be sent to the worker. */
export function canForward({ engine }: WorkerCard): boolean {
  return engine.runtimeData?.['forwards'] === true
}

/** Whose prompt cache is divided by a `cache_salt` in the body of a request. */
export function takesSalts({ engine }: WorkerCard): boolean {
  const kind = engine.runtimeData?.['upstream_kind']
  return kind === 'vllm' || kind === 'sglang'
}

/** A JSON object with these members behind its own; all other bytes stay as they are. */
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
