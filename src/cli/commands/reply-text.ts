/**
 * Reads the text of an answer, up to a limit in bytes and in time, because anything may answer at an address.
 */
import { BatonError } from '../../base/index.ts'
import { noServer } from './no-server.ts'

const BYTES_MAX = 32 * 1024 * 1024

/** Rejects with `transport.cannot_connect` when the answer exceeds the limit in bytes or in time. */
export async function replyText(url: string, reply: Response, withinMs?: number): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const piece of (reply.body ?? []) as AsyncIterable<Uint8Array>) {
      bytes += piece.byteLength
      // Leaving the loop cancels the rest of the body.
      if (bytes > BYTES_MAX) throw noBaton(url)
      pieces.push(piece)
    }
  } catch (error) {
    throw error instanceof BatonError ? error : noServer(url, error, withinMs)
  }
  return Buffer.concat(pieces).toString('utf8')
}

export function noBaton(url: string, cause?: unknown): BatonError {
  const message = `the server at ${url} is not a Baton server: give the address of your server with --url`
  return new BatonError('transport.cannot_connect', message, { cause })
}
