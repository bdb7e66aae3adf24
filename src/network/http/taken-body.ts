/**
 * Consumes a request's body in pieces; the client is slowed down while a piece is processed.
 */
import type { IncomingMessage } from 'node:http'
import { BatonError } from '../../base/index.ts'
import type { BodyTaker, HttpReply } from '../../frontend/index.ts'

/** The reply; null when the client disconnected before the end. Rejects with the error for the client. */
export async function takenBody(
  req: IncomingMessage,
  takeBody: () => BodyTaker,
  bytesMax: number,
): Promise<HttpReply | null> {
  if (Number(req.headers['content-length'] ?? 0) > bytesMax) throw bodyTooLarge(bytesMax)
  const taker = takeBody()
  let bytes = 0
  try {
    // The connection stays open for the refusal.
    for await (const piece of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > bytesMax) throw bodyTooLarge(bytesMax)
      await taker.take(piece)
    }
  } catch (error) {
    await taker.abort()
    if (error instanceof BatonError) throw error
    return null
  }
  // Some versions of Node report a disconnected client only like this.
  if (!req.complete) {
    await taker.abort()
    return null
  }
  return await taker.end()
}

export function bodyTooLarge(bytesMax: number): BatonError {
  return new BatonError(
    'request.payload_too_large',
    `the request body exceeds the limit of ${bytesMax} bytes`,
    { data: { limit: bytesMax } },
  )
}
