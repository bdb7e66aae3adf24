/** Quotes, backslashes and control characters: what is neither printable ASCII nor beyond ASCII. */
const ESCAPED = /["\\]|[^ -~\u0080-\uffff]/g

/** A text as a GBNF literal. */
export function gbnfText(text: string): string {
  return `"${text.replaceAll(ESCAPED, escaped)}"`
}

function escaped(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`
  return `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`
}
