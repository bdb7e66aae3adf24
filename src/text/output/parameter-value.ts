/** Values that a format writes without quotes: the tool's schema says which of them are text. */
import { isRecord } from '../../base/index.ts'
import { isJson } from './is-json.ts'
import type { OfferedTool } from './output-event.ts'
import { pythonLiteralJson } from './python-literal.ts'

/** Text by the schema; without a schema, everything that a schema does not call otherwise. */
export function isTextParameter(
  tools: readonly OfferedTool[],
  tool: string,
  parameter: string,
): boolean {
  const schema = tools.find((offered) => offered.name === tool)?.parameters
  const properties = isRecord(schema) ? schema['properties'] : undefined
  const property = isRecord(properties) ? properties[parameter] : undefined
  if (!isRecord(property)) return true
  return property['type'] === 'string'
}

/** JSON as it is, a literal of Python (some models write `True` and `['a']`) as JSON, anything else as a text. */
export function bareValue(text: string): string {
  const trimmed = text.trim()
  return isJson(trimmed) ? trimmed : (pythonLiteralJson(trimmed) ?? JSON.stringify(text))
}
