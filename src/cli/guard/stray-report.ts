/** Logs an unhandled error of a user's engine: any value of any size, of which some parts may not be readable. */
import { stdSerializers } from 'pino'
import { errorOf, messageOf } from '../../base/index.ts'

/** With its fields and causes an error may have so many characters in the log; a longer one is shortened. */
const WHOLE_CHARACTERS_MAX = 32 * 1024
const SHORT_CHARACTERS = 8 * 1024

export interface StrayLog {
  error(facts: { readonly err: Error; readonly [fact: string]: unknown }, text: string): void
}

export function reportStray(
  logger: StrayLog,
  thrown: unknown,
  facts: Readonly<Record<string, unknown>>,
  text: string,
): void {
  const error = errorOf(thrown)
  try {
    logger.error({ err: isShort(error) ? error : shortened(error), ...facts }, text)
  } catch {
    // It could be read the first time only.
    logger.error({ err: shortened(error), ...facts }, text)
  }
}

/** False also if the logger could not read a field of it, or not write it. */
function isShort(error: Error): boolean {
  try {
    return JSON.stringify(stdSerializers.err(error)).length <= WHOLE_CHARACTERS_MAX
  } catch {
    return false
  }
}

/** The message and the calls of the stack, without fields and causes. */
function shortened(error: Error): Error {
  const short = new Error(clipped(messageOf(error)))
  short.stack = `${nameOf(error)}: ${short.message}\n${clipped(callsOf(error).join('\n'))}`
  return short
}

function clipped(text: string): string {
  return text.length <= SHORT_CHARACTERS ? text : `${text.slice(0, SHORT_CHARACTERS)}…`
}

function nameOf(error: Error): string {
  try {
    return clipped(error.name)
  } catch {
    return 'Error'
  }
}

/** The calls on the stack of the error; none if it is no error, or if its stack cannot be read. */
export function callsOf(error: unknown): readonly string[] {
  try {
    if (!(error instanceof Error)) return []
    return (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  } catch {
    return []
  }
}
