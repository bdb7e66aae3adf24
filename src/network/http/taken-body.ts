/**
 * A request's body that is taken piece by piece: the client is held back while a piece is being taken.
 */
import type { IncomingMessage } from 'node:http'
import { BatonError } from '../../base/index.ts'
import type { BodyTaker, HttpReply } from '../../frontend/index.ts'

/** The reply; null when the client left before the end. Rejects with what it is to be refused with. */
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
  // Of a client that has left some versions of Node say nothing but that.
  if (!req.complete) {
    await taker.abort()
    return null
  }
  return await taker.end()
}

export function bodyTooLarge(bytesMax: number): BatonError {
  return new BatonError(
    'request.payload_too_large',
    `the body of the request is over the limit of ${bytesMax} bytes`,
    { data: { limit: bytesMax } },
  )
}
