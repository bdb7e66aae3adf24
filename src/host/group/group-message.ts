/**
 * The messages between the processes of a group of frontends. The parent only relays messages between siblings.
 */
import type { ErrorValue } from '../../base/index.ts'
import type { FleetNote } from '../../frontend/index.ts'

/** From a frontend to its parent. */
export type FrontendReport<Card = unknown> =
  | { readonly kind: 'ready'; readonly port: number }
  | { readonly kind: 'failed'; readonly error: ErrorValue }
  | { readonly kind: 'connected'; readonly cards: readonly Card[] }
  | { readonly kind: 'pong' }

/** From the parent to a frontend. */
export interface AwaitWorkers {
  readonly kind: 'await-workers'
  readonly workers: number
  readonly deadlineMs: number
}

/** From the parent to a frontend, which answers `pong` when its event loop runs. */
export interface Ping {
  readonly kind: 'ping'
}

/** From the parent to a frontend: end all replies with an error, then exit. */
export interface CutOff {
  readonly kind: 'cut-off'
}

/** From the parent to a frontend: sets a warning of `/health`; null removes it. */
export interface NoteNews {
  readonly kind: 'note'
  readonly name: string
  readonly note: FleetNote | null
}

/** All that the parent tells a frontend by itself. */
export type ParentMessage = AwaitWorkers | Ping | CutOff | NoteNews

/** Between siblings, relayed by the parent. */
export type SiblingMessage =
  | { readonly kind: 'told'; readonly topic: string; readonly body: unknown }
  | { readonly kind: 'asked'; readonly topic: string; readonly id: number; readonly body: unknown }
  | { readonly kind: 'answered'; readonly to: number; readonly id: number; readonly body: unknown }
  /** From the parent to the asking frontend: the number of answers to expect. */
  | { readonly kind: 'asking'; readonly id: number; readonly siblings: number }

/** A message as the parent relays it, with the sending process. */
export interface Relayed {
  readonly from: number
  readonly message: SiblingMessage
}

export function isSiblingMessage(message: unknown): message is SiblingMessage {
  const kind = (message as { readonly kind?: unknown } | null)?.kind
  return kind === 'told' || kind === 'asked' || kind === 'answered'
}
