/**
 * GBNF rules for any text up to and including the first of several closing texts.
 *
 * A grammar cannot express "not this text", so the rules are the states of an automaton that looks for all closing
 * texts at once (Aho-Corasick): a state is the part of a closing text that has been read. Every rule refers to others
 * only at its end, so long texts cost no stack.
 */

/** The text is the rule `name`; all other rule names begin with it. `closes` must not be empty. */
export function textUntil(name: string, closes: readonly string[]): string {
  const letters = [...new Set(closes.flatMap((close) => Array.from(close)))]
  const begins = new Map<string, string>([['', name]])
  for (const close of closes) {
    const units = Array.from(close)
    for (let length = 1; length < units.length; length++) {
      const begin = units.slice(0, length).join('')
      if (!begins.has(begin)) begins.set(begin, `${name}-${begins.size}`)
    }
  }
  const rules: string[] = []
  for (const [begin, rule] of begins) {
    const options = letters.map((letter) => {
      const next = nextOf(begin + letter, begins, closes)
      return next === null ? gbnfClass([letter]) : `${gbnfClass([letter])} ${next}`
    })
    rules.push(`${rule} ::= ${[`${gbnfClass(letters, true)} ${name}`, ...options].join(' | ')}\n`)
  }
  return rules.join('')
}

/** The state after `text`: its longest suffix that begins a closing text; null: a closing text is complete. */
function nextOf(
  text: string,
  begins: ReadonlyMap<string, string>,
  closes: readonly string[],
): string | null {
  if (closes.some((close) => text.endsWith(close))) return null
  const units = Array.from(text)
  for (let from = 0; from < units.length; from++) {
    const found = begins.get(units.slice(from).join(''))
    if (found !== undefined) return found
  }
  return begins.get('') ?? null
}

function gbnfClass(letters: readonly string[], isNegated = false): string {
  const codes = letters.map((letter) => {
    const code = (letter.codePointAt(0) ?? 0).toString(16)
    return code.length <= 2 ? `\\x${code.padStart(2, '0')}` : `\\U${code.padStart(8, '0')}`
  })
  return `[${isNegated ? '^' : ''}${codes.join('')}]`
}
