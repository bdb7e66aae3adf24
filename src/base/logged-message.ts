/**
 * Removes from an error message what a log must not contain: text that the client has sent.
 *
 * The message of a refused request quotes the refused value, which may be a part of a prompt, a schema or a tool; a
 * JSON parser quotes the body, and an engine may quote all of it. Names of fields and models stay, because an operator
 * looks for them.
 */
import { isSendersFault } from './error-codes.ts'
import type { ErrorValue } from './baton-error.ts'

/** From the first quote to the last, because a quoted text may contain quotes; not an apostrophe in a word. */
const QUOTED = /(?<!\w)['"][^]*['"]/
const IN_BACKTICKS = /`[^`]*`/g
/** What fields, models and ids look like. A sentence has blanks. */
const NAME = /^`[\w.[\]/:@+-]{1,128}`$/

export function loggedMessage({ code, message }: ErrorValue): string {
  if (!isSendersFault(code)) return message
  return message
    .replace(QUOTED, '"…"')
    .replace(IN_BACKTICKS, (text) => (NAME.test(text) ? text : '`…`'))
}
