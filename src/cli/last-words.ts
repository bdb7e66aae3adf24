/**
 * The message of a process that cannot load its own program; imported before anything else.
 *
 * Without enough address space (`ulimit -v`) a module that contains WebAssembly fails while it is loaded,
 * possibly before any `catch` exists that could print a sentence.
 */
const NO_MEMORY = /WebAssembly.*(out of memory|could not allocate)|Array buffer allocation failed/i

/** The sentence for an out-of-memory error; null for any other. */
export function memorySentence(error: unknown): string | null {
  if (!(error instanceof RangeError) || !NO_MEMORY.test(error.message)) return null
  return 'not enough address space for WebAssembly: raise or remove its limit (ulimit -v)'
}

process.on('uncaughtException', (error: unknown) => {
  const sentence = memorySentence(error)
  console.error(`baton: ${sentence ?? 'internal error'}`)
  if (sentence === null) console.error(error)
  process.exit(1)
})
