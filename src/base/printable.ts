/**
 * Makes text from outside safe on a line of a terminal or log: characters that move the cursor, start a new line or
 * change the text direction become spaces.
 */

/** C0 and C1 controls and DEL; line and paragraph separators; bidirectional embeddings, overrides and isolates. */
// oxlint-disable-next-line no-control-regex -- these characters are replaced
const UNPRINTABLE = /[\u0000-\u001F\u007F-\u009F\u2028-\u202E\u2066-\u2069]/g

export function printable(text: string): string {
  return text.replace(UNPRINTABLE, ' ')
}

/** The same without line feed and tab; bidirectional marks are kept as part of the text. */
// oxlint-disable-next-line no-control-regex -- these characters are replaced
const CONTROLS = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g

/** For text of several lines, such as the output of a model. */
export function printableLines(text: string): string {
  return text.replace(CONTROLS, ' ')
}
