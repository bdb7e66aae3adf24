/** Lines of bytes that come in pieces; none is longer than its bound. */
import { BatonError } from '../../base/index.ts'

const LF = 10

/** Without their ends. Throws `request.payload_too_large` for a line over the bound. */
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
      yield joined(begun, rest, begunBytes)
      begun = []
      begunBytes = 0
      from = end + 1
    }
    if (from === piece.length) continue
    begun.push(piece.slice(from))
    begunBytes += piece.length - from
    if (begunBytes > lineBytesMax) throw tooLong(lineBytesMax)
  }
  if (begunBytes > 0) yield joined(begun, new Uint8Array(0), begunBytes)
}

function joined(begun: readonly Uint8Array[], rest: Uint8Array, begunBytes: number): Uint8Array {
  if (begun.length === 0) return rest.slice()
  const line = new Uint8Array(begunBytes + rest.length)
  let at = 0
  for (const part of [...begun, rest]) {
    line.set(part, at)
    at += part.length
  }
  return line
}

function tooLong(limit: number): BatonError {
  const text = `a line is longer than ${limit} bytes`
  return new BatonError('request.payload_too_large', text, { data: { limit } })
}
