/** The formats of tool calls by the names that people already use for them. */
import { HarmonyParser } from './harmony-parser.ts'
import { jsonCalls } from './json-calls.ts'
import { endsInsideString, isJson } from './json-span.ts'
import type { OfferedTool, OutputParser, ToolCall } from './output-event.ts'
import { pythonCalls } from './python-calls.ts'
import {
  argKeyCalls,
  deepseekCalls,
  dsmlCalls,
  functionTagCalls,
  invokeTagCalls,
  kimiCalls,
} from './tagged-calls.ts'
import { ToolCallParser } from './tool-call-parser.ts'
import type { ToolFormat } from './tool-call-parser.ts'

const section = (open: string, close: string | null) => ({ open, close })

const json = { endsInsideValue: endsInsideString, decode: jsonCalls }
const hermes: ToolFormat = { sections: [section('<tool_call>', '</tool_call>')], ...json }
const nemotron: ToolFormat = { sections: [section('<TOOLCALL>', '</TOOLCALL>')], ...json }
const jamba: ToolFormat = { sections: [section('<tool_calls>', '</tool_calls>')], ...json }
const phi4: ToolFormat = {
  sections: [section('functools', null)],
  bare: bareJson,
  decode: jsonCalls,
}
const llama3: ToolFormat = {
  sections: [section('<|python_tag|>', null)],
  bare: bareJson,
  decode: jsonCalls,
}
const mistral: ToolFormat = {
  sections: [section('[TOOL_CALLS]', null)],
  innerMarkers: ['[ARGS]', '[CALL_ID]'],
  bare: bareJson,
  decode: (body) => jsonCalls(body) ?? namedMistralCalls(body),
}
const pythonic: ToolFormat = {
  sections: [section('<|python_start|>', '<|python_end|>')],
  bare: barePython,
  decode: pythonCalls,
}
const deepseek: ToolFormat = {
  sections: [section('<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>')],
  innerMarkers: ['<｜tool▁call▁begin｜>', '<｜tool▁call▁end｜>', '<｜tool▁sep｜>'],
  decode: deepseekCalls,
}
const dsml: ToolFormat = {
  sections: [
    section('<｜DSML｜function_calls>', '</｜DSML｜function_calls>'),
    section('<｜DSML｜tool_calls>', '</｜DSML｜tool_calls>'),
  ],
  innerMarkers: ['｜DSML｜'],
  decode: dsmlCalls,
}
const qwen3Coder: ToolFormat = { sections: hermes.sections, decode: functionTagCalls }
const glm: ToolFormat = {
  sections: hermes.sections,
  innerMarkers: ['<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'],
  decode: argKeyCalls,
}
const minimax: ToolFormat = {
  sections: [section('<minimax:tool_call>', '</minimax:tool_call>')],
  decode: invokeTagCalls,
}
const kimi: ToolFormat = {
  sections: [section('<|tool_calls_section_begin|>', '<|tool_calls_section_end|>')],
  innerMarkers: ['<|tool_call_begin|>', '<|tool_call_argument_begin|>', '<|tool_call_end|>'],
  decode: kimiCalls,
}
/** Whatever comes: the tags of several families, and JSON without any. */
const anyJson: ToolFormat = {
  sections: [hermes, nemotron, jamba, llama3, mistral].flatMap((format) => format.sections),
  bare: bareJson,
  ...json,
}

const FORMATS: Readonly<Record<string, ToolFormat>> = {
  default: anyJson,
  hermes,
  qwen25: hermes,
  nemotron_deci: nemotron,
  llama3_json: llama3,
  mistral,
  phi4,
  pythonic,
  jamba,
  deepseek_v3: deepseek,
  deepseek_v3_1: deepseek,
  deepseek_v3_2: dsml,
  deepseek_v4: dsml,
  qwen3_coder: qwen3Coder,
  nemotron_nano: qwen3Coder,
  minimax_m2: minimax,
  glm45: glm,
  glm47: glm,
  kimi_k2: kimi,
}

export const TOOL_CALL_PARSER_NAMES: readonly string[] = [...Object.keys(FORMATS), 'harmony']

/** Null: there is no parser of this name. `qwen3-coder` is `qwen3_coder`. */
export function createToolCallParser(
  name: string,
  tools: readonly OfferedTool[] = [],
): OutputParser | null {
  const key = name.toLowerCase().replaceAll('-', '_')
  if (key === 'harmony') return new HarmonyParser()
  const format = FORMATS[key]
  return format === undefined ? null : new ToolCallParser(format, tools)
}

const DETECTABLE: readonly (readonly [string, string])[] = [
  ['<|channel|>', 'harmony'],
  ['<｜tool▁calls▁begin｜>', 'deepseek_v3'],
  ['｜DSML｜', 'deepseek_v3_2'],
  ['<|tool_calls_section_begin|>', 'kimi_k2'],
  ['<minimax:tool_call>', 'minimax_m2'],
  ['<arg_key>', 'glm47'],
  ['<function=', 'qwen3_coder'],
  ['<tool_call>', 'hermes'],
  ['<TOOLCALL>', 'nemotron_deci'],
  ['<tool_calls>', 'jamba'],
  ['[TOOL_CALLS]', 'mistral'],
  ['<|python_start|>', 'pythonic'],
  ['<|python_tag|>', 'llama3_json'],
  ['functools[', 'phi4'],
]

/** Which format a chat template speaks, or null. */
export function detectToolCallParser(template: string): string | null {
  const found = DETECTABLE.find(([marker]) => template.includes(marker))?.[1]
  if (found !== undefined) return found
  // The small Llamas write calls without a marker.
  const isLlama3 = template.includes('<|start_header_id|>') && template.includes('"parameters"')
  return isLlama3 ? 'llama3_json' : null
}

/** Newer Mistral models: `name[ARGS]{…}`, once per marker. */
function namedMistralCalls(body: string): readonly ToolCall[] | null {
  const calls: ToolCall[] = []
  for (const part of body.split('[TOOL_CALLS]')) {
    const match = /^\s*([\w.-]+)(?:\[CALL_ID\][\w-]+)?\s*(?:\[ARGS\])?\s*(\{[\s\S]*\})\s*$/.exec(
      part,
    )
    const [, name = '', argumentsJson = ''] = match ?? []
    if (match === null || !isJson(argumentsJson)) return null
    calls.push({ name, argumentsJson })
  }
  return calls.length > 0 ? calls : null
}

const FIRST_KEYS = new Set(['name', 'type', 'function', 'parameters', 'arguments', 'id'])

/** An object, or a list of objects, that begins with a member that calls have. */
function bareJson(begin: string): 'yes' | 'no' | 'undecided' {
  if (/^\s*(?:\[\s*)?(?:\{\s*(?:"\w{0,20})?)?$/.test(begin)) return 'undecided'
  const key = /^\s*(?:\[\s*)?\{\s*"(\w{1,20})"/.exec(begin)?.[1]
  return key !== undefined && FIRST_KEYS.has(key) ? 'yes' : 'no'
}

/** A list that begins with a call. */
function barePython(begin: string): 'yes' | 'no' | 'undecided' {
  if (/^\s*(?:\[\s*(?:[A-Za-z_][\w.]{0,100})?)?$/.test(begin)) return 'undecided'
  return /^\s*\[\s*[A-Za-z_][\w.]{0,100}\(/.test(begin) ? 'yes' : 'no'
}
