/**
 * All ways in which a test splits a text, because a parser must give the same result for each: whole, one UTF-16
 * unit at a time, in two at every position, one byte at a time, and in two at every byte. An incomplete character
 * waits for its rest, as in the detokeniser.
 */
export function everyCut(text: string): string[][] {
  const cuts = Array.from({ length: text.length + 1 }, (_, at) => [
    text.slice(0, at),
    text.slice(at),
  ])
  const bytes = new TextEncoder().encode(text)
  const byteCuts =
    bytes.length === text.length
      ? []
      : Array.from(bytes, (_, at) => decoded([bytes.subarray(0, at), bytes.subarray(at)]))
  const eachByte = decoded(Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)))
  return [[text], text.split(''), eachByte, ...cuts, ...byteCuts]
}

function decoded(pieces: readonly Uint8Array[]): string[] {
  const decoder = new TextDecoder()
  return pieces.map((piece) => decoder.decode(piece, { stream: true }))
}
