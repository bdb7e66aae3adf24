/**
 * What the processes of one group of frontends say to each other. The parent only hands on what siblings say.
 */
import type { ErrorValue } from '../../base/index.ts'

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

/** From the parent to a frontend, which says `pong` as soon as it does anything. */
export interface Ping {
  readonly kind: 'ping'
}

/** Between siblings, over the parent. */
export type SiblingMessage =
  | { readonly kind: 'told'; readonly topic: string; readonly body: unknown }
  | { readonly kind: 'asked'; readonly topic: string; readonly id: number; readonly body: unknown }
  | { readonly kind: 'answered'; readonly to: number; readonly id: number; readonly body: unknown }
  /** From the parent to who asked: how many answers there will be. */
  | { readonly kind: 'asking'; readonly id: number; readonly siblings: number }

/** A message as the parent hands it on, with the process that sent it. */
export interface Relayed {
  readonly from: number
  readonly message: SiblingMessage
}

export function isSiblingMessage(message: unknown): message is SiblingMessage {
  const kind = (message as { readonly kind?: unknown } | null)?.kind
  return kind === 'told' || kind === 'asked' || kind === 'answered'
}
