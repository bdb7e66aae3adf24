/** What Python does with the values of a template, as the interpreter holds them. */
export interface Held {
  readonly type: string
  readonly value: unknown
}

/** `str(value)`; an undefined value is an empty text, as in Jinja. */
export function str(held: Held): string {
  if (typeof held.value === 'string') return held.value
  return held.type === 'UndefinedValue' ? '' : repr(held)
}

function repr({ type, value }: Held): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (value === null || value === undefined) return 'None'
  if (Array.isArray(value)) return `[${(value as Held[]).map(repr).join(', ')}]`
  if (value instanceof Map) {
    const fields = [...(value as Map<string, Held>)]
    return `{${fields.map(([name, field]) => `${quoted(name)}: ${repr(field)}`).join(', ')}}`
  }
  if (typeof value !== 'number') throw new Error(`a value of type ${type} has no text`)
  if (type === 'FloatValue' && Number.isInteger(value)) return value.toFixed(1)
  return String(value).replace(/e([+-])(\d)$/, 'e$10$2')
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

/** Single quotes, unless the text has some and no double ones. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const escaped = text.replace(/[\\'\p{Cc}]/gu, (character) => {
    if (character === "'") return quote === "'" ? "\\'" : character
    if (character === '\\') return '\\\\'
    const code = character.charCodeAt(0).toString(16).padStart(2, '0')
    return ESCAPES[character] ?? `\\x${code}`
  })
  return quote + escaped + quote
}

/** `item in all` */
export function contains(item: Held, { type, value: all }: Held): boolean {
  if (Array.isArray(all)) return (all as Held[]).some((each) => isEqual(each, item))
  if (all instanceof Map) return all.has(item.value)
  if (type === 'UndefinedValue') return false
  if (typeof all === 'string' && typeof item.value === 'string') return all.includes(item.value)
  throw new Error(`cannot look for a ${item.type} in a ${type}`)
}

function isEqual(left: Held, right: Held): boolean {
  const isCompound = typeof left.value === 'object' && typeof right.value === 'object'
  return isCompound ? repr(left) === repr(right) : left.value === right.value
}

/** `text.format(…)` with fields that are empty or a number. */
export function formatted(text: string, values: readonly Held[]): string {
  let next = 0
  return text.replace(/\{\{|\}\}|\{(\d*)\}|[{}]/g, (field, index: string | undefined) => {
    if (field === '{{' || field === '}}') return field.slice(1)
    const value = values[index === '' ? next++ : Number(index)]
    if (value !== undefined) return str(value)
    throw new Error(`the field ${field} of 'format' is not supported`)
  })
}

export function textIn({ type, value }: Held): string {
  if (typeof value === 'string') return value
  throw new Error(`a ${type} is no text`)
}

export function listIn({ type, value }: Held): readonly Held[] {
  if (Array.isArray(value)) return value as Held[]
  throw new Error(`a ${type} is no list`)
}

export function numbersIn(held: Held): readonly number[] {
  return listIn(held).map(({ type, value }) => {
    if (typeof value === 'number') return value
    throw new Error(`a ${type} is no number`)
  })
}
