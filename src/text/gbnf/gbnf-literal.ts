/** A text as a GBNF literal. */
export function gbnfText(text: string): string {
  let literal = ''
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    if (character === '"' || character === '\\') literal += `\\${character}`
    else if (code < 0x20 || code === 0x7f) literal += `\\x${code.toString(16).padStart(2, '0')}`
    else literal += character
  }
  return `"${literal}"`
}
