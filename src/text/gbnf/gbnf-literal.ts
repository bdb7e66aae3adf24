/** A text as a GBNF literal. */
export function gbnfText(text: string): string {
  // eslint-disable-next-line no-control-regex
  return `"${text.replaceAll(/["\\\u0000-\u001f\u007f]/g, escaped)}"`
}

function escaped(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`
  return `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`
}
