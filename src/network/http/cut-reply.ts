/** Ends replies whose clients read too slowly. */
import type { ServerResponse } from 'node:http'
import type { ClientSignal } from './client-signal.ts'
import { breakOff, http2StreamOf, isHttp2 } from './http-listener.ts'

/** A reply that is being sent. */
export interface SentReply {
  readonly res: ServerResponse
  readonly gone: ClientSignal
  requestId: string | null
}

/** The limit that a client has exceeded. */
export type ReaderLimit =
  | { readonly limit: 'bufferedBytesMax' | 'unsentBytesMax'; readonly limitBytes: number }
  | { readonly limit: 'unreadMs'; readonly limitMs: number }

export type SlowReader = ReaderLimit & {
  readonly requestId: string | null
  readonly unsentBytes: number
}

/** `onCut` is called only if the reply has not ended yet. */
export function cutReply(
  { res, gone, requestId }: SentReply,
  limit: ReaderLimit,
  onCut: (reader: SlowReader) => void,
): void {
  // A pipelined reply whose turn has not come has no socket yet, and destroying it would free nothing until the replies
  // before it are sent, so its whole connection ends.
  const { socket } = res.req
  const hasTurn = isItsTurn(res)
  const { destroyed } = http2StreamOf(res) ?? (hasTurn ? res : socket)
  if (destroyed) return
  onCut({ requestId, unsentBytes: res.writableLength, ...limit })
  // The request's record says so too, because this client did not disconnect by itself.
  gone.abort('the client read too slowly: its reply was cut')
  if (hasTurn) breakOff(res)
  else socket.destroy()
}

/** False: the reply waits for earlier ones of its connection (pipelined requests). */
export function isItsTurn(res: ServerResponse): boolean {
  return isHttp2(res.req) || res.socket !== null
}
