/**
 * Filters comment lines of an engine's event stream. They keep a connection alive and have no meaning in any API,
 * but may contain internals: only those that report a wait are passed on unchanged, others without their text.
 */
import { holdsInside } from '../dialects/upstream-error.ts'

const PLAIN =
  /^: ?(?:keep-?alive|ping|pong|heartbeat|processing|waiting|openrouter processing)?[ \d/.%+:TZ-]*$/i
const COLON = 0x3a

/** `isAtLine`: the text starts at the beginning of a line. */
export function withPlainComments(text: string, isAtLine: boolean): string {
  const isFirst = isAtLine && text.charCodeAt(0) === COLON
  if (!isFirst && !text.includes('\n:') && !text.includes('\r:')) return text
  const comments = isAtLine ? /(^|[\r\n]):[^\r\n]*/g : /([\r\n]):[^\r\n]*/g
  return text.replace(comments, (line: string, before: string) =>
    isPlain(line.slice(before.length)) ? line : `${before}:`,
  )
}

function isPlain(comment: string): boolean {
  return PLAIN.test(comment) && !holdsInside(comment)
}
