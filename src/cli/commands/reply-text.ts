/** The text of an answer, as far as an answer may go: what answers at an address may be anything. */
import { BatonError } from '../../base/index.ts'
import { noServer } from './no-server.ts'

const BYTES_MAX = 32 * 1024 * 1024

/** Rejects with `transport.cannot_connect` when it does not end, in bytes or in time. */
export async function replyText(url: string, reply: Response): Promise<string> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const piece of (reply.body ?? []) as AsyncIterable<Uint8Array>) {
      bytes += piece.byteLength
      // Leaving the loop cancels the rest.
      if (bytes > BYTES_MAX) throw noBaton(url)
      pieces.push(piece)
    }
  } catch (error) {
    throw error instanceof BatonError ? error : noServer(url, error)
  }
  return Buffer.concat(pieces).toString('utf8')
}

export function noBaton(url: string, cause?: unknown): BatonError {
  const message = `what answers at ${url} is no Baton server: name yours with --url`
  return new BatonError('transport.cannot_connect', message, { cause })
}
