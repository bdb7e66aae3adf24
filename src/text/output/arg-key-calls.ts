/** Calls of GLM: `name<arg_key>key</arg_key><arg_value>value</arg_value>`. */
import type { OfferedTool, ToolCall } from './output-event.ts'
import { bareValue, isTextParameter } from './parameter-value.ts'

export function argKeyCalls(
  body: string,
  tools: readonly OfferedTool[],
): readonly ToolCall[] | null {
  const [, name] = /^\s*([^\s<{]+)\s*(?:<arg_key>|$)/.exec(body) ?? []
  if (name === undefined) return null
  const pair = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g
  const members = [...body.matchAll(pair)].map(([, key = '', value = '']) => {
    const text = value.replace(/^\n/, '').replace(/\n$/, '')
    const isText = isTextParameter(tools, name, key.trim())
    return `${JSON.stringify(key.trim())}:${isText ? JSON.stringify(text) : bareValue(text)}`
  })
  return [{ name, argumentsJson: `{${members.join(',')}}` }]
}
