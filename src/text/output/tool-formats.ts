/** The formats of tool calls by the names that people already use for them. */
import { argKeyCalls } from './arg-key-calls.ts'
import { gemmaCalls } from './gemma-calls.ts'
import { HarmonyParser } from './harmony-parser.ts'
import { JsonCallReader } from './json-call-reader.ts'
import { MarkedCallReader } from './marked-call-reader.ts'
import type { MarkedCallForm } from './marked-call-reader.ts'
import { MistralCallReader } from './mistral-call-reader.ts'
import type { OfferedTool, OutputParser, ToolCall } from './output-event.ts'
import { parserKey } from './parser-key.ts'
import { pythonCalls } from './python-calls.ts'
import { TaggedCallReader } from './tagged-call-reader.ts'
import type { TaggedCallForm } from './tagged-call-reader.ts'
import { ToolCallParser } from './tool-call-parser.ts'
import type { ToolFormat } from './tool-call-parser.ts'
import { WholeCallReader } from './whole-call-reader.ts'

const section = (open: string, close: string | null) => ({ open, close })

type CreateReader = ToolFormat['createReader']

/** What looks like a call without any marker is one only if there is such a tool. */
const createJsonReader: CreateReader = ({ open }, tools) =>
  open === ''
    ? new JsonCallReader((name) => tools.some((tool) => tool.name === name))
    : new JsonCallReader()
const whole = (
  decode: (body: string, tools: readonly OfferedTool[]) => readonly ToolCall[] | null,
): { readonly createReader: CreateReader } => ({
  createReader: ({ open, close }, tools) =>
    new WholeCallReader((body) => offered(decode(body, tools), open, tools), close),
})
const marked = (form: MarkedCallForm): { readonly createReader: CreateReader } => ({
  createReader: ({ close }) => new MarkedCallReader(form, close),
})
const tagged = (form: TaggedCallForm): { readonly createReader: CreateReader } => ({
  createReader: (_section, tools) => new TaggedCallReader(form, tools),
})

/** Models of these families forget their tags at times; without them a call must be of a tool that is offered. */
const jsonIn = (open: string, close: string | null): ToolFormat => ({
  sections: [section(open, close)],
  bare: bareJson,
  createReader: createJsonReader,
})

const hermes = jsonIn('<tool_call>', '</tool_call>')
const nemotron = jsonIn('<TOOLCALL>', '</TOOLCALL>')
const jamba = jsonIn('<tool_calls>', '</tool_calls>')
const phi4 = jsonIn('functools', null)
const llama3 = jsonIn('<|python_tag|>', null)
const createMistralReader: CreateReader = (of, tools) =>
  of.open === '[TOOL_CALLS]' ? new MistralCallReader() : createJsonReader(of, tools)
const mistral: ToolFormat = {
  sections: [section('[TOOL_CALLS]', null)],
  innerMarkers: ['[ARGS]', '[CALL_ID]'],
  bare: bareJson,
  createReader: createMistralReader,
}
const pythonic: ToolFormat = {
  sections: [section('<|python_start|>', '<|python_end|>')],
  bare: barePython,
  ...whole(pythonCalls),
}
const deepseek: ToolFormat = {
  sections: [section('<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>')],
  innerMarkers: ['<｜tool▁call▁begin｜>', '<｜tool▁call▁end｜>', '<｜tool▁sep｜>'],
  ...marked({
    begin: '<｜tool▁call▁begin｜>',
    end: '<｜tool▁call▁end｜>',
    // V3 writes `function<sep>name` and a fenced block, V3.1 `name<sep>`.
    head: /^\s*(?:\w*<｜tool▁sep｜>([^\n]+)\n```(?:json)?\s*|([^\s<]+)\s*<｜tool▁sep｜>\s*)$/,
  }),
}
const dsml: ToolFormat = {
  sections: [
    section('<｜DSML｜function_calls>', '</｜DSML｜function_calls>'),
    section('<｜DSML｜tool_calls>', '</｜DSML｜tool_calls>'),
  ],
  innerMarkers: ['｜DSML｜'],
  ...tagged({
    call: /^<｜DSML｜invoke name="([^"]+)"\s*>$/,
    callEnd: '</｜DSML｜invoke>',
    parameter: /^<｜DSML｜parameter name="([^"]+)"(?: string="(true|false)")?\s*>$/,
    parameterEnd: '</｜DSML｜parameter>',
    trimsLineBreaks: false,
  }),
}
const qwen3Coder: ToolFormat = {
  sections: hermes.sections,
  ...tagged({
    call: /^<function=([^>\s]+)\s*>$/,
    callEnd: '</function>',
    parameter: /^<parameter=([^>]+)>$/,
    parameterEnd: '</parameter>',
    trimsLineBreaks: true,
  }),
}
const glm: ToolFormat = {
  sections: hermes.sections,
  innerMarkers: ['<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'],
  ...whole(argKeyCalls),
}
const minimax: ToolFormat = {
  sections: [section('<minimax:tool_call>', '</minimax:tool_call>')],
  ...tagged({
    call: /^<invoke name="([^"]+)"\s*>$/,
    callEnd: '</invoke>',
    parameter: /^<parameter name="([^"]+)"\s*>$/,
    parameterEnd: '</parameter>',
    trimsLineBreaks: true,
  }),
}
const kimi: ToolFormat = {
  sections: [section('<|tool_calls_section_begin|>', '<|tool_calls_section_end|>')],
  innerMarkers: ['<|tool_call_begin|>', '<|tool_call_argument_begin|>', '<|tool_call_end|>'],
  ...marked({
    begin: '<|tool_call_begin|>',
    end: '<|tool_call_end|>',
    head: /^\s*(?:functions\.)?([^\s:<]+)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*$/,
  }),
}
const gemma: ToolFormat = {
  sections: [section('<|tool_call>', '<tool_call|>')],
  innerMarkers: ['<|"|>'],
  ...whole(gemmaCalls),
}
/** Whatever comes: the tags of several families, and JSON without any. */
const anyJson: ToolFormat = {
  ...mistral,
  sections: [hermes, nemotron, jamba, llama3, mistral].flatMap((format) => format.sections),
}
/** The engine is held to one call without markers, of a tool that is offered. */
const forced: ToolFormat = {
  sections: [],
  bare: () => 'yes',
  createReader: () => new JsonCallReader(),
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
  gemma4: gemma,
}

export const TOOL_CALL_PARSER_NAMES: readonly string[] = [...Object.keys(FORMATS), 'harmony']

/** Null: there is no parser of this name. `qwen3-coder` is `qwen3_coder`, `gemma-4` is `gemma4`. */
export function createToolCallParser(
  name: string,
  tools: readonly OfferedTool[] = [],
): OutputParser | null {
  const key = parserKey(name)
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
  ['<|tool_call>', 'gemma4'],
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

/** For an output that is nothing but `{"name":…,"arguments":…}`, as a forced tool choice makes it. */
export function createForcedCallParser(): OutputParser {
  return new ToolCallParser(forced)
}

function offered(
  calls: readonly ToolCall[] | null,
  open: string,
  tools: readonly OfferedTool[],
): readonly ToolCall[] | null {
  const isCall = (call: ToolCall): boolean => tools.some((tool) => tool.name === call.name)
  return open === '' && calls?.every(isCall) === false ? null : calls
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
