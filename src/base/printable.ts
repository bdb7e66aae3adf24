/**
 * Text of others on a line of a terminal or a log: what moves the cursor, begins another line or changes the direction of reading
 * becomes a space.
 */

/** C0 and C1 controls with DEL; line and paragraph separators; marks that embed, override or isolate a direction. */
// oxlint-disable-next-line no-control-regex -- these are what is taken out
const UNPRINTABLE = /[\u0000-\u001F\u007F-\u009F\u2028-\u202E\u2066-\u2069]/g

export function printable(text: string): string {
  return text.replace(UNPRINTABLE, ' ')
}

/** The same without line feed and tab; marks of direction belong to the text. */
// oxlint-disable-next-line no-control-regex -- these are what is taken out
const CONTROLS = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F]/g

/** A text of several lines, as a model writes it. */
export function printableLines(text: string): string {
  return text.replace(CONTROLS, ' ')
}
