/** Splits bytes that arrive in pieces into lines of bounded length. */
import { BatonError, joinedBytes } from '../../base/index.ts'

const LF = 10

/** Lines without their line breaks. Throws `request.payload_too_large` for a line above the limit. */
export async function* byteLines(
  pieces: AsyncIterable<Uint8Array>,
  lineBytesMax: number,
): AsyncGenerator<Uint8Array> {
  let begun: Uint8Array[] = []
  let begunBytes = 0
  for await (const piece of pieces) {
    let from = 0
    for (let end = piece.indexOf(LF); end >= 0; end = piece.indexOf(LF, from)) {
      const rest = piece.subarray(from, end)
      if (begunBytes + rest.length > lineBytesMax) throw tooLong(lineBytesMax)
      yield joinedBytes([...begun, rest])
      begun = []
      begunBytes = 0
      from = end + 1
    }
    if (from === piece.length) continue
    begun.push(piece.slice(from))
    begunBytes += piece.length - from
    if (begunBytes > lineBytesMax) throw tooLong(lineBytesMax)
  }
  if (begunBytes > 0) yield joinedBytes(begun)
}

function tooLong(limit: number): BatonError {
  const text = `a line is longer than ${limit} bytes`
  return new BatonError('request.payload_too_large', text, { data: { limit } })
}
