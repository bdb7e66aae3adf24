/**
 * Calls written as JSON: `{"name": …, "arguments": {…}}`, with `parameters` for `arguments`, one or a list of them or
 * several with `;` or `,` between. The arguments keep the text that the model wrote.
 */
import { isJson, jsonMembers, jsonValueEnd, skipBlanks } from './json-span.ts'
import type { ToolCall } from './output-event.ts'

/** All calls of a text that consists of nothing else, or null. */
export function jsonCalls(text: string): readonly ToolCall[] | null {
  const calls: ToolCall[] = []
  let at = skipBlanks(text, 0)
  const isList = text.charAt(at) === '['
  if (isList) at = skipBlanks(text, at + 1)
  while (text.charAt(at) === '{') {
    const call = jsonCall(text, at)
    if (call === null) return null
    calls.push(call)
    at = skipBlanks(text, jsonValueEnd(text, at))
    if (text.charAt(at) === ',' || text.charAt(at) === ';') at = skipBlanks(text, at + 1)
  }
  if (isList && text.charAt(at) === ']') at = skipBlanks(text, at + 1)
  return at === text.length && calls.length > 0 ? calls : null
}

function jsonCall(text: string, at: number): ToolCall | null {
  let members = jsonMembers(text, at)
  const wrapped = members?.get('function')
  if (wrapped?.startsWith('{') === true) members = jsonMembers(wrapped, 0)
  const name: unknown = JSON.parse(members?.get('name') ?? 'null')
  if (members === null || typeof name !== 'string' || name === '') return null
  const argumentsJson = objectText(members.get('arguments') ?? members.get('parameters') ?? '{}')
  return argumentsJson === null ? null : { name, argumentsJson }
}

/** An object as it is; an object that was put into a string once more. */
function objectText(json: string): string | null {
  if (json.startsWith('{')) return json
  if (json === 'null') return '{}'
  if (!json.startsWith('"')) return null
  const inner = String(JSON.parse(json)).trim()
  if (inner === '') return '{}'
  return inner.startsWith('{') && isJson(inner) ? inner : null
}
