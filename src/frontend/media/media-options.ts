/**
 * The limits for media in forwarded bodies, and how addresses are fetched.
 */
import type { CancelSignal } from '../../base/index.ts'

export interface MediaOptions {
  /** Limit for one image, recording or document. */
  readonly bytesMax: number
  /** Absent: addresses are refused, and engines never get them. */
  readonly fetch?: FetchMedia
}

export interface FetchedMedia {
  readonly byteLength: number
  /** The first bytes, at most 512. */
  readonly head: Uint8Array
  /** The whole content. */
  readonly base64: string
}

/**
 * Fetches an http or https address. Rejects with a `BatonError` of class `request` whose message reveals
 * nothing about the local network; content that is too long is `request.payload_too_large`.
 */
export type FetchMedia = (
  url: string,
  options: { readonly bytesMax: number; readonly signal: CancelSignal },
) => Promise<FetchedMedia>

/** Limit per request. */
export const MEDIA_COUNT_MAX = 128
export const DEFAULT_MEDIA: MediaOptions = { bytesMax: 20 * 1024 * 1024 }
