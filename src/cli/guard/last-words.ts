/**
 * The last message of a process that ends with an error, and the errors that do not end it; imported before anything
 * else.
 *
 * Without enough address space (`ulimit -v`) a module that contains WebAssembly fails while it is loaded, possibly
 * before any `catch` exists that could print a sentence.
 */
const NO_MEMORY = /WebAssembly.*(out of memory|could not allocate)|Array buffer allocation failed/i

const CAUSES_MAX = 8

/** The sentence for an error of a limit of the process, also when it caused the error; null for any other. */
export function limitSentence(error: unknown): string | null {
  let at = error
  for (let depth = 0; at instanceof Error && depth < CAUSES_MAX; depth++) {
    const sentence = sentenceOf(at)
    if (sentence !== null) return sentence
    at = at.cause
  }
  return null
}

function sentenceOf(error: Error): string | null {
  if ((error as NodeJS.ErrnoException).code === 'EMFILE') {
    return `${error.message}; raise the limit of open files of this process (ulimit -n)`
  }
  if (!(error instanceof RangeError) || !NO_MEMORY.test(error.message)) return null
  return 'not enough address space for WebAssembly: raise or remove its limit (ulimit -v)'
}

let hasSaid = false

/** Prints the sentence, once: one limit fails in several places. False when the error is of no limit. */
export function sayLimit(error: unknown): boolean {
  const sentence = limitSentence(error)
  if (sentence === null) return false
  if (!hasSaid) console.error(`baton: ${sentence}`)
  hasSaid = true
  return true
}

const endsAll = (): boolean => false
let isSpared: (error: unknown) => boolean = endsAll

/** Errors for which `check` is true do not end the process; `check` reports them. */
export function spareErrors(check: (error: unknown) => boolean): void {
  const isFirst = isSpared === endsAll
  isSpared = check
  if (!isFirst) return
  // Other errors are thrown again and end the process below.
  process.on('unhandledRejection', (reason: unknown) => {
    if (!isSpared(reason)) throw reason
  })
}

process.on('uncaughtException', (error: unknown) => {
  if (isSpared(error)) return
  if (!sayLimit(error)) {
    console.error('baton: internal error')
    console.error(error)
  }
  process.exit(1)
})
