/**
 * What a server takes of media in bodies that go on to engines, and how it gets what stands behind an address.
 */
import type { CancelSignal } from '../../base/index.ts'

export interface MediaOptions {
  /** Of one image, recording or document. */
  readonly bytesMax: number
  /** Absent: no address is fetched, by anybody. */
  readonly fetch?: FetchMedia
}

export interface FetchedMedia {
  readonly byteLength: number
  /** The first bytes, as many as there are up to 512. */
  readonly head: Uint8Array
  /** All of them. */
  readonly base64: string
}

/**
 * The bytes behind an address of http or https. Rejects with a `BatonError` of class `request` whose message tells nothing of
 * the network here; one that is too long is `request.payload_too_large`.
 */
export type FetchMedia = (
  url: string,
  options: { readonly bytesMax: number; readonly signal: CancelSignal },
) => Promise<FetchedMedia>

/** Of one request. */
export const MEDIA_COUNT_MAX = 128
export const DEFAULT_MEDIA: MediaOptions = { bytesMax: 20 * 1024 * 1024 }
