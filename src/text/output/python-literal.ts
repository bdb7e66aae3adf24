/** Converts a Python literal (`True`, `['a', 'b']`, `{'x': 1}`) to JSON. */
import { isJson } from './is-json.ts'
import { PYTHON } from './literal-language.ts'
import { LiteralScanner } from './literal-scanner.ts'

/** Null: it is not a literal. */
export function pythonLiteralJson(text: string): string | null {
  const scanner = new LiteralScanner(PYTHON, { close: '', separator: null, bareKey: null })
  // The blank ends a word. A list without brackets would be accepted, too, but is not JSON.
  const end = scanner.read(`${text} `, 0)
  return end === text.length + 1 && isJson(scanner.output) ? scanner.output : null
}
