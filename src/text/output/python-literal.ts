/** A literal of Python (`True`, `['a', 'b']`, `{'x': 1}`) as JSON. */
import { isJson } from './is-json.ts'
import { PYTHON } from './literal-language.ts'
import { LiteralScanner } from './literal-scanner.ts'

/** Null: it is none. */
export function pythonLiteralJson(text: string): string | null {
  const scanner = new LiteralScanner(PYTHON, { close: '', separator: null, bareKey: null })
  // The blank ends a word; a list without brackets would be read as well, but is no JSON.
  const end = scanner.read(`${text} `, 0)
  return end === text.length + 1 && isJson(scanner.output) ? scanner.output : null
}
