/** Finds where JSON values begin and end, so that a part of one can be handed on as it was written. */

/** The index behind the value that begins at `at` (blanks allowed), or -1 when it does not end in this text. */
export function jsonValueEnd(text: string, at: number): number {
  const start = skipBlanks(text, at)
  const first = text.charAt(start)
  if (first === '"') return stringEnd(text, start)
  if (first !== '{' && first !== '[') return scalarEnd(text, start)
  let depth = 0
  for (let i = start; i < text.length; i++) {
    const character = text.charAt(i)
    if (character === '"') {
      i = stringEnd(text, i) - 1
      if (i < 0) return -1
    } else if (character === '{' || character === '[') depth++
    else if (character === '}' || character === ']') {
      depth--
      if (depth === 0) return i + 1
    }
  }
  return -1
}

/** The members of the object that begins at `at`: name → the value's text. Null when it is not a whole object. */
export function jsonMembers(text: string, at: number): ReadonlyMap<string, string> | null {
  const end = jsonValueEnd(text, at)
  const start = skipBlanks(text, at)
  if (end < 0 || text.charAt(start) !== '{' || !isJson(text.slice(start, end))) return null
  const members = new Map<string, string>()
  let i = skipBlanks(text, start + 1)
  while (text.charAt(i) === '"') {
    const nameEnd = stringEnd(text, i)
    const name = String(JSON.parse(text.slice(i, nameEnd)))
    const valueStart = skipBlanks(text, skipBlanks(text, nameEnd) + 1)
    const valueEnd = jsonValueEnd(text, valueStart)
    members.set(name, text.slice(valueStart, valueEnd))
    i = skipBlanks(text, valueEnd)
    if (text.charAt(i) === ',') i = skipBlanks(text, i + 1)
  }
  return members
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return false
    throw thrown
  }
}

export function skipBlanks(text: string, at: number): number {
  let i = at
  while (i < text.length && ' \t\r\n'.includes(text.charAt(i))) i++
  return i
}

/** The text ends in the middle of a string: what looks like a marker there is part of a value. */
export function endsInsideString(text: string): boolean {
  for (let i = text.indexOf('"'); i >= 0; i = text.indexOf('"', i)) {
    i = stringEnd(text, i)
    if (i < 0) return true
  }
  return false
}

function stringEnd(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    const character = text.charAt(i)
    if (character === '\\') i++
    else if (character === '"') return i + 1
  }
  return -1
}

function scalarEnd(text: string, at: number): number {
  let i = at
  while (i < text.length && !',]} \t\r\n'.includes(text.charAt(i))) i++
  return i === at ? -1 : i
}
