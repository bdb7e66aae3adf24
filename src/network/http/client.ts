/**
 * The receiver of a reply, from the head of its request to the close of the response.
 */
import type { ServerResponse } from 'node:http'
import { ClientSignal } from './client-signal.ts'
import type { SentReply } from './cut-reply.ts'
import type { SocketStreamWriter } from './socket-stream-writer.ts'

export interface Client extends SentReply {
  /** Null: the reply is not a stream, or has not begun. */
  writer: SocketStreamWriter | null
}

export function clientOf(res: ServerResponse): Client {
  return { res, gone: new ClientSignal(), requestId: null, writer: null }
}

/** For HEAD: Node sends the head only with the end, and a stream may have none. What would be streamed is released. */
export function endWithoutStream({ res, gone }: Client): void {
  gone.abort()
  res.end()
}
