/**
 * Calls written with tags around names and values, as Qwen3-Coder, MiniMax, GLM, DeepSeek and Kimi do. Values stand
 * there without quotes; the tool's schema says which of them are text.
 */
import { isRecord } from '../json-value.ts'
import { isJson } from './json-span.ts'
import type { OfferedTool, ToolCall } from './output-event.ts'

/** `<function=name><parameter=key>value</parameter></function>` */
export function functionTagCalls(
  body: string,
  tools: readonly OfferedTool[],
): readonly ToolCall[] | null {
  return collect(body, /<function=([^>\s]+)\s*>([\s\S]*?)(?:<\/function>|$)/g, (name, inside) =>
    argumentsOf(inside, /<parameter=([^>]+)>([\s\S]*?)<\/parameter>/g, name, tools),
  )
}

/** `<invoke name="…"><parameter name="key">value</parameter></invoke>` */
export function invokeTagCalls(
  body: string,
  tools: readonly OfferedTool[],
): readonly ToolCall[] | null {
  return collect(body, /<invoke name="([^"]+)"\s*>([\s\S]*?)<\/invoke>/g, (name, inside) =>
    argumentsOf(inside, /<parameter name="([^"]+)"\s*>([\s\S]*?)<\/parameter>/g, name, tools),
  )
}

/** DeepSeek's own: `<｜DSML｜invoke name="…"><｜DSML｜parameter name="key" string="true|false">value…` */
export function dsmlCalls(body: string): readonly ToolCall[] | null {
  const invoke = /<｜DSML｜invoke name="([^"]+)"\s*>([\s\S]*?)<\/｜DSML｜invoke>/g
  const parameter =
    /<｜DSML｜parameter name="([^"]+)" string="(true|false)"\s*>([\s\S]*?)<\/｜DSML｜parameter>/g
  return collect(body, invoke, (_name, inside) => {
    const members = [...inside.matchAll(parameter)].map(([, key = '', isText, value = '']) =>
      member(key, isText === 'true' ? JSON.stringify(value) : bareValue(value)),
    )
    return `{${members.join(',')}}`
  })
}

/** `name<arg_key>key</arg_key><arg_value>value</arg_value>` */
export function argKeyCalls(
  body: string,
  tools: readonly OfferedTool[],
): readonly ToolCall[] | null {
  const [, name] = /^\s*([^\s<{]+)\s*(?:<arg_key>|$)/.exec(body) ?? []
  if (name === undefined) return null
  const pair = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g
  return [{ name, argumentsJson: argumentsOf(body, pair, name, tools) }]
}

/** DeepSeek V3 (`function<sep>name` and a fenced JSON block) and V3.1 (`name<sep>{…}`). */
export function deepseekCalls(body: string): readonly ToolCall[] | null {
  const call = /<｜tool▁call▁begin｜>([\s\S]*?)(?:<｜tool▁call▁end｜>|$)/g
  const calls: ToolCall[] = []
  for (const [, inside = ''] of body.matchAll(call)) {
    const [before = '', after = ''] = inside.split('<｜tool▁sep｜>')
    const fenced = /^\s*([^\n]+)\n```(?:json)?\n([\s\S]*?)\n?```\s*$/.exec(after)
    const name = (fenced?.[1] ?? before).trim()
    const argumentsJson = (fenced?.[2] ?? after).trim()
    if (name === '' || !argumentsJson.startsWith('{') || !isJson(argumentsJson)) return null
    calls.push({ name, argumentsJson })
  }
  return calls.length > 0 ? calls : null
}

/** Kimi K2: `functions.name:0<|tool_call_argument_begin|>{…}` */
export function kimiCalls(body: string): readonly ToolCall[] | null {
  const call =
    /<\|tool_call_begin\|>\s*(?:functions\.)?([^\s:<]+)(?::\d+)?\s*<\|tool_call_argument_begin\|>([\s\S]*?)(?:<\|tool_call_end\|>|$)/g
  const calls: ToolCall[] = []
  for (const [, name = '', inside = ''] of body.matchAll(call)) {
    const argumentsJson = inside.trim() === '' ? '{}' : inside.trim()
    if (!argumentsJson.startsWith('{') || !isJson(argumentsJson)) return null
    calls.push({ name, argumentsJson })
  }
  return calls.length > 0 ? calls : null
}

function collect(
  body: string,
  pattern: RegExp,
  argumentsFrom: (name: string, inside: string) => string,
): readonly ToolCall[] | null {
  const calls = [...body.matchAll(pattern)].map(([, name = '', inside = '']) => ({
    name,
    argumentsJson: argumentsFrom(name, inside),
  }))
  return calls.length > 0 ? calls : null
}

function argumentsOf(
  inside: string,
  pattern: RegExp,
  tool: string,
  tools: readonly OfferedTool[],
): string {
  const members = [...inside.matchAll(pattern)].map(([, key = '', value = '']) => {
    const name = key.trim()
    const text = value.replace(/^\n/, '').replace(/\n$/, '')
    return member(name, isText(tools, tool, name) ? JSON.stringify(text) : bareValue(text))
  })
  return `{${members.join(',')}}`
}

function member(key: string, json: string): string {
  return `${JSON.stringify(key)}:${json}`
}

function bareValue(text: string): string {
  const trimmed = text.trim()
  return isJson(trimmed) ? trimmed : JSON.stringify(text)
}

/** Text by the schema; without a schema, everything that a schema does not call otherwise. */
function isText(tools: readonly OfferedTool[], tool: string, parameter: string): boolean {
  const schema = tools.find((offered) => offered.name === tool)?.parameters
  const properties = isRecord(schema) ? schema['properties'] : undefined
  const property = isRecord(properties) ? properties[parameter] : undefined
  if (!isRecord(property)) return true
  return property['type'] === 'string'
}
