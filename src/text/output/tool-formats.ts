/** The formats of tool calls by the names that people already use for them. */
import type { CallForm } from '../gbnf/model-output-gbnf.ts'
import { ArgKeyCallReader } from './arg-key-call-reader.ts'
import { HarmonyParser } from './harmony-parser.ts'
import { JsonCallReader } from './json-call-reader.ts'
import { LiteralCallReader } from './literal-call-reader.ts'
import type { LiteralCallForm } from './literal-call-reader.ts'
import { PYTHON, gemmaLanguage } from './literal-language.ts'
import { MarkedCallReader } from './marked-call-reader.ts'
import type { MarkedCallForm } from './marked-call-reader.ts'
import { MistralCallReader } from './mistral-call-reader.ts'
import type { OfferedTool, OutputParser } from './output-event.ts'
import { parserKey } from './parser-key.ts'
import { TaggedCallReader } from './tagged-call-reader.ts'
import type { TaggedCallForm } from './tagged-call-reader.ts'
import { ToolCallParser } from './tool-call-parser.ts'
import type { ToolFormat } from './tool-call-parser.ts'

const section = (open: string, close: string | null) => ({ open, close })

type CreateReader = ToolFormat['createReader']

/** What looks like a call without any marker is one only if there is such a tool. */
const createJsonReader: CreateReader = ({ open }, tools) =>
  open === ''
    ? new JsonCallReader((name) => tools.some((tool) => tool.name === name))
    : new JsonCallReader()
const literal = (form: LiteralCallForm): { readonly createReader: CreateReader } => ({
  createReader: ({ open }, tools) =>
    new LiteralCallReader(form, (name) => open !== '' || tools.some((tool) => tool.name === name)),
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

const hermes: ToolFormat = { ...jsonIn('<tool_call>', '</tool_call>'), holdsOneObject: true }
const nemotron = jsonIn('<TOOLCALL>', '</TOOLCALL>')
const jamba = jsonIn('<tool_calls>', '</tool_calls>')
const llama3 = jsonIn('<|python_tag|>', null)
const createMistralReader: CreateReader = (of, tools) =>
  of.open === '[TOOL_CALLS]' ? new MistralCallReader() : createJsonReader(of, tools)
const mistral: ToolFormat = {
  sections: [section('[TOOL_CALLS]', null)],
  innerMarkers: ['[ARGS]', '[CALL_ID]'],
  bare: bareJson,
  createReader: createMistralReader,
}
const PYTHON_CALLS: LiteralCallForm = {
  language: PYTHON,
  head: /^([A-Za-z_][\w.]*)\s*\(/,
  headBegin: /^[A-Za-z_][\w.]*\s*$/,
}
const pythonIn = (open: string, close: string): ToolFormat => ({
  sections: [section(open, close)],
  bare: barePython,
  ...literal(PYTHON_CALLS),
})
const pythonic = pythonIn('<|python_start|>', '<|python_end|>')
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
/** The models forget the section's opener at times, and the closing tag of a value. */
const QWEN3_CODER: TaggedCallForm = {
  call: /^<function=([^>\s]+)\s*>$/,
  callEnd: '</function>',
  parameter: /^<parameter=([^>]+)>$/,
  parameterEnd: '</parameter>',
  trimsLineBreaks: true,
  valueBreaks: ['<parameter=', '</function>'],
}
const qwen3Coder: ToolFormat = {
  sections: [...hermes.sections, section('<function=', null)],
  createReader: ({ open }, tools) =>
    new TaggedCallReader(QWEN3_CODER, tools, open === '<function=' ? open : ''),
}
const glm: ToolFormat = {
  sections: hermes.sections,
  innerMarkers: ['<arg_key>', '</arg_key>', '<arg_value>', '</arg_value>'],
  createReader: ({ close }, tools) => new ArgKeyCallReader(tools, close ?? ''),
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
const gemmaIn = (open: string, close: string, quote: string): ToolFormat => ({
  sections: [section(open, close)],
  innerMarkers: [quote],
  ...literal({
    language: gemmaLanguage(quote),
    head: /^call:\s*([\w.-]+)\s*\{/,
    headBegin: /^(?:c|ca|cal|call|call:\s*[\w.-]*\s*)$/,
  }),
})
const gemma = gemmaIn('<|tool_call>', '<tool_call|>', '<|"|>')
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

/** Granite 3.0 has a token of its own, 3.1 to 3.3 open with the other, 4 closes it as well. */
const granite: ToolFormat = {
  ...hermes,
  holdsOneObject: false,
  sections: [section('<|tool_call|>', null), ...hermes.sections],
}
/** Phi-4 has `functools`, Phi-4 mini tags as well. */
const phi4: ToolFormat = {
  ...hermes,
  holdsOneObject: false,
  sections: [section('functools', null), section('<|tool_call|>', '<|/tool_call|>')],
}
const internlm: ToolFormat = {
  ...jsonIn('<|action_start|><|plugin|>', '<|action_end|>'),
  innerMarkers: ['<|action_start|>', '<|plugin|>'],
}
const seedOss: ToolFormat = {
  sections: [section('<seed:tool_call>', '</seed:tool_call>')],
  ...tagged(QWEN3_CODER),
}
const step3: ToolFormat = {
  sections: [section('<｜tool_calls_begin｜>', '<｜tool_calls_end｜>')],
  innerMarkers: ['<｜tool_call_begin｜>', '<｜tool_sep｜>', '<｜tool_call_end｜>'],
  ...tagged({
    call: /^<steptml:invoke name="([^"]+)"\s*>$/,
    callEnd: '</steptml:invoke>',
    parameter: /^<steptml:parameter name="([^"]+)"\s*>$/,
    parameterEnd: '</steptml:parameter>',
    trimsLineBreaks: true,
    fillers: ['<｜tool_call_begin｜>', '<｜tool_sep｜>', '<｜tool_call_end｜>', 'function'],
  }),
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
  functiongemma: gemmaIn('<start_function_call>', '<end_function_call>', '<escape>'),
  granite,
  granite_20b_fc: jsonIn('<function_call>', null),
  internlm,
  command_r7b: jsonIn('<|START_ACTION|>', '<|END_ACTION|>'),
  seed_oss: seedOss,
  longcat: { ...jsonIn('<longcat_tool_call>', '</longcat_tool_call>'), holdsOneObject: true },
  step3,
  olmo3: pythonIn('<function_calls>', '</function_calls>'),
  lfm2: pythonIn('<|tool_call_start|>', '<|tool_call_end|>'),
  hunyuan_a13b: jamba,
  ernie45: hermes,
}

/** The same formats by the names of vLLM and SGLang. */
const ALIASES: Readonly<Record<string, string>> = {
  deepseekv3: 'deepseek_v3',
  deepseekv31: 'deepseek_v3_1',
  deepseek_v31: 'deepseek_v3_1',
  deepseekv32: 'deepseek_v3_2',
  deepseek_v32: 'deepseek_v3_2',
  deepseekv4: 'deepseek_v4',
  cohere: 'command_r7b',
  cohere_command3: 'command_r7b',
  command_r: 'command_r7b',
  ernie: 'ernie45',
  function_gemma: 'functiongemma',
  gemma_4: 'gemma4',
  granite3: 'granite',
  granite4: 'granite',
  hunyuan: 'hunyuan_a13b',
  internlm2: 'internlm',
  interns1: 'internlm',
  mimo: 'qwen3_coder',
  step3p5: 'qwen3_coder',
  glm: 'glm45',
  gpt_oss: 'harmony',
  kimi: 'kimi_k2',
  llama3: 'llama3_json',
  llama4_json: 'llama3_json',
  llama4_pythonic: 'pythonic',
  minimax: 'minimax_m2',
  openai: 'harmony',
  phi4_mini_json: 'phi4',
  qwen: 'qwen25',
  qwen3: 'qwen25',
  qwen3_xml: 'qwen3_coder',
  // A list of calls as JSON, with or without tags.
  xlam: 'default',
}

export const TOOL_CALL_PARSER_NAMES: readonly string[] = [...Object.keys(FORMATS), 'harmony']

/** Also by the names that vLLM and SGLang use. */
export function isToolCallParser(name: string): boolean {
  return TOOL_CALL_PARSER_NAMES.includes(parserKey(name, ALIASES))
}

/**
 * Null: there is no parser of this name. `qwen3-coder` is `qwen3_coder`, `gemma-4` is `gemma4`. `isHeld`: by a grammar, so that
 * what begins like a call is one.
 */
export function createToolCallParser(
  name: string,
  tools: readonly OfferedTool[] = [],
  isHeld = false,
): OutputParser | null {
  const key = parserKey(name, ALIASES)
  if (key === 'harmony') return new HarmonyParser()
  const format = FORMATS[key]
  return format === undefined ? null : new ToolCallParser(format, tools, isHeld)
}

/** How calls of this format begin and end, for a grammar that leaves room for them. Empty: there is no such format. */
export function callFormsOf(name: string, tools: readonly OfferedTool[]): readonly CallForm[] {
  const key = parserKey(name, ALIASES)
  if (key === 'harmony') return HARMONY_CALLS
  const format = FORMATS[key]
  if (format === undefined) return []
  const isJson = format.holdsOneObject === true
  const forms = format.sections.map(({ open, close }) => ({ open, close, isJson }))
  // Models of this family write calls without a marker as a rule.
  if (format !== pythonic) return forms
  return [
    ...forms,
    ...tools.map((tool) => ({ open: `[${tool.name}(`, close: null, isJson: false })),
  ]
}

const HARMONY_CALLS: readonly CallForm[] = [
  { open: '<|channel|>commentary', close: null, isJson: false },
]

const DETECTABLE: readonly (readonly [string, string])[] = [
  ['<|channel|>', 'harmony'],
  ['<｜tool▁calls▁begin｜>', 'deepseek_v3'],
  ['｜DSML｜', 'deepseek_v3_2'],
  ['<|tool_calls_section_begin|>', 'kimi_k2'],
  ['<minimax:tool_call>', 'minimax_m2'],
  ['<|tool_call>', 'gemma4'],
  ['<start_function_call>', 'functiongemma'],
  ['<seed:tool_call>', 'seed_oss'],
  ['<longcat_tool_call>', 'longcat'],
  ['steptml:', 'step3'],
  ['<|START_ACTION|>', 'command_r7b'],
  ['<|action_start|>', 'internlm'],
  ['<|tool_list_start|>', 'lfm2'],
  ['<function_calls>', 'olmo3'],
  ['<|/tool|>', 'phi4'],
  ['<|tool_call|>', 'granite'],
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
  return new ToolCallParser(forced, [], true)
}

const FIRST_KEYS = new Set([
  'name',
  'tool_name',
  'tool_call_id',
  'type',
  'function',
  'parameters',
  'arguments',
  'id',
])

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
