/** A longer copy of an array of words, with zeros after its content. */
export function grown(words: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const longer = new Int32Array(length)
  longer.set(words)
  return longer
}
