/** The formats of tool calls, by the names that are in common use. */
import type { CallForm } from '../gbnf/model-output-gbnf.ts'
import { AddressedParser } from '../channels/addressed-parser.ts'
import { TypedBlocksParser } from '../channels/typed-blocks-parser.ts'
import { HarmonyParser } from '../channels/harmony-parser.ts'
import type { OfferedTool, OutputParser } from '../output/output-event.ts'
import { JsonCallReader } from '../output/json-call-reader.ts'
import type { TaggedCallForm } from '../output/tagged-call-reader.ts'
import { ToolCallParser } from '../output/tool-call-parser.ts'
import type { ToolFormat } from '../output/tool-call-parser.ts'
import {
  apertus,
  dots,
  gigachat3,
  hunyuanOf,
  inklingCalls,
  k2Horizon,
  kimiK3,
  minicpm5,
  minimaxM3,
  museCalls,
  plamo3,
} from './further-tool-formats.ts'
import { TOOL_CALL_ALIASES as ALIASES } from './parser-aliases.ts'
import { hunyuanSuffixOf, parserKey, suffixOf } from './parser-key.ts'
import {
  argKeys,
  bareJson,
  createJsonReader,
  gemmaIn,
  jsonIn,
  jsonOr,
  marked,
  markupOf,
  pythonIn,
  section,
  tagged,
  taggedFrom,
} from './tool-format-kinds.ts'

const hermes: ToolFormat = { ...jsonIn('<tool_call>', '</tool_call>'), holdsOneObject: true }
const nemotron = jsonIn('<TOOLCALL>', '</TOOLCALL>')
const jamba = jsonIn('<tool_calls>', '</tool_calls>')
const llama3: ToolFormat = { ...jsonIn('<|python_tag|>', null), isBareAfterText: true }
/** A JSON list of calls, or, in newer models, one call as `name[ARGS]{…}`. */
const mistralNamed = jsonOr(
  marked({
    begin: null,
    end: null,
    head: /^\s*([\w.-]+)(?:\[CALL_ID\][\w-]+)?\s*(?:\[ARGS\])?\s*$/,
  }),
)
const mistral: ToolFormat = {
  sections: [section('[TOOL_CALLS]', null)],
  innerMarkers: ['[ARGS]', '[CALL_ID]'],
  bare: bareJson,
  createReader: (opened, tools) =>
    (opened.open === '[TOOL_CALLS]' ? mistralNamed.createReader : createJsonReader)(opened, tools),
}
const pythonic = pythonIn('<|python_start|>', '<|python_end|>')
const deepseek: ToolFormat = {
  sections: [section('<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>')],
  innerMarkers: ['<｜tool▁call▁begin｜>', '<｜tool▁call▁end｜>', '<｜tool▁sep｜>'],
  ...marked({
    begin: '<｜tool▁call▁begin｜>',
    end: '<｜tool▁call▁end｜>',
    // V3 writes `function<sep>name` and a fenced block, V3.1 writes `name<sep>`.
    head: /^\s*(?:\w*<｜tool▁sep｜>([^\n]+)\n```(?:json)?\s*|([^\s<]+)\s*<｜tool▁sep｜>\s*)$/,
  }),
}
const dsml = markupOf('｜DSML｜', '', ['function_calls', 'tool_calls'])
/** The models sometimes omit the opening tag of the section and the closing tag of a value. */
const QWEN3_CODER: TaggedCallForm = {
  call: /^<function=\s*["']?([^>\s"']+)["']?\s*>$/,
  callEnd: '</function>',
  parameter: /^<parameter=\s*["']?([^>"']+?)["']?\s*>$/,
  parameterEnd: '</parameter>',
  trimsLineBreaks: true,
  valueBreaks: ['<parameter=', '</function>'],
  sectionEnds: ['</tool_call>'],
}
const qwen3Coder: ToolFormat = {
  sections: [...hermes.sections, section('<function=', null)],
  ...taggedFrom('<function=', QWEN3_CODER),
}
const GLM_KEY = ['<arg_key>', '</arg_key>'] as const
const GLM_VALUE = ['<arg_value>', '</arg_value>'] as const
const glmIn = (open: string, close: string): ToolFormat => ({
  sections: [section(open, close)],
  innerMarkers: [...GLM_KEY, ...GLM_VALUE],
  ...argKeys({ key: GLM_KEY, value: GLM_VALUE }),
})
const glm = glmIn('<tool_call>', '</tool_call>')
const minimax: ToolFormat = {
  sections: [section('<minimax:tool_call>', '</minimax:tool_call>')],
  ...tagged({
    call: /^<invoke name=["']?([^"'>]+?)["']?\s*>$/,
    callEnd: '</invoke>',
    parameter: /^<parameter name=["']?([^"'>]+?)["']?\s*>$/,
    parameterEnd: '</parameter>',
    trimsLineBreaks: true,
    valueBreaks: ['<parameter name=', '</invoke>'],
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
const gemma = gemmaIn('<|tool_call>', '<tool_call|>', '<|"|>', true)
/** Accepts the tags of several families, and JSON without tags. */
const anyJson: ToolFormat = {
  ...mistral,
  sections: [hermes, nemotron, jamba, llama3, mistral].flatMap((format) => format.sections),
}
/** Also in a fence of Markdown. */
const FENCE = '```json'
const xlam: ToolFormat = {
  ...anyJson,
  sections: [...anyJson.sections, section(FENCE, '```')],
  createReader: ({ open, close }, tools) =>
    anyJson.createReader({ open: open === FENCE ? '' : open, close }, tools),
}
/** For an engine that is constrained to one call of an offered tool, without markers. */
const forced: ToolFormat = {
  sections: [],
  bare: () => 'yes',
  createReader: () => new JsonCallReader(),
}

/** Granite 3.0 has its own token, 3.1 to 3.3 use only the opening tag, 4 also the closing one. */
const granite: ToolFormat = {
  ...hermes,
  holdsOneObject: false,
  sections: [section('<|tool_call|>', null), ...hermes.sections],
}
/** Phi-4 uses `functools`, Phi-4 mini tags as well. */
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
  hunyuan: hunyuanOf(''),
  ernie45: hermes,
  deepseek_v4_1: markupOf('｜DSML｜', ' ', ['calls']),
  gigachat3,
  gigachat35: markupOf('｜GCML｜', '', ['tool_calls']),
  apertus,
  dots,
  iquest_q1: glmIn('<iquest_tool_call>', '</iquest_tool_call>'),
  k2_horizon: k2Horizon,
  kimi_k3: kimiK3,
  minicpm5,
  minimax_m3: minimaxM3,
  muse: museCalls,
  inkling: inklingCalls,
  plamo3,
  xlam,
}

/** Undefined for an unknown name. `hy_v3:opensource` is Hunyuan with the tags `<tool_calls:opensource>`. */
function formatOf(name: string): ToolFormat | undefined {
  const key = parserKey(name, ALIASES)
  const suffix = suffixOf(name)
  if (suffix === '') return Object.hasOwn(FORMATS, key) ? FORMATS[key] : undefined
  return key === 'hunyuan' ? hunyuanOf(suffix) : undefined
}

export const TOOL_CALL_PARSER_NAMES: readonly string[] = [...Object.keys(FORMATS), 'harmony']

function isHarmony(name: string): boolean {
  return parserKey(name, ALIASES) === 'harmony'
}

/** Also accepts the names used by vLLM and SGLang. */
export function isToolCallParser(name: string): boolean {
  return formatOf(name) !== undefined || isHarmony(name)
}

/**
 * Null for an unknown name. `qwen3-coder` is accepted for `qwen3_coder`, `gemma-4` for `gemma4`. `isHeld`: the output
 * is constrained by a grammar, so that whatever begins like a call is one.
 */
export function createToolCallParser(
  name: string,
  tools: readonly OfferedTool[] = [],
  isHeld = false,
): OutputParser | null {
  if (isHarmony(name)) return new HarmonyParser(tools)
  const format = formatOf(name)
  if (format === undefined) return null
  const parser = new ToolCallParser(format, tools, isHeld)
  if (format === museCalls) return new AddressedParser(parser)
  return format === inklingCalls ? new TypedBlocksParser(parser) : parser
}

/** How calls of this format begin and end, for a grammar that allows them. Empty for an unknown format. */
export function callFormsOf(name: string, tools: readonly OfferedTool[]): readonly CallForm[] {
  if (isHarmony(name)) return HARMONY_CALLS
  const format = formatOf(name)
  if (format === museCalls) return tools.map((tool) => museCallOf(tool.name))
  if (format === undefined) return []
  const isJson = format.holdsOneObject === true
  // A fence may also contain an answer.
  const sections = format.sections.filter(({ open }) => open !== FENCE)
  const forms = sections.map(({ open, close }) => ({ open, close, isJson }))
  // Models of this family usually write calls without a marker.
  if (format !== pythonic) return forms
  return [
    ...forms,
    ...tools.map((tool) => ({ open: `[${tool.name}(`, close: null, isJson: false })),
  ]
}

const HARMONY_CALLS: readonly CallForm[] = [
  { open: '<|channel|>commentary', close: null, isJson: false },
]

const museCallOf = (name: string): CallForm => ({
  open: ` to=${name}<|message|>`,
  close: null,
  isJson: false,
})

const DETECTABLE: readonly (readonly [string, string])[] = [
  ['<|channel|>', 'harmony'],
  ['<atem:', 'muse'],
  ['<|content_invoke_tool_json|>', 'inkling'],
  ['｜DSML｜ calls', 'deepseek_v4_1'],
  ['｜GCML｜', 'gigachat35'],
  ['<dots_function_call>', 'dots'],
  ['<iquest_tool_call>', 'iquest_q1'],
  ['<ifm|tool_call>', 'k2_horizon'],
  ['<|tools_prefix|>', 'apertus'],
  [']<]minimax[>[', 'minimax_m3'],
  ['<|function_call|>', 'gigachat3'],
  ['<|plamo:begin_tool_request', 'plamo3'],
  ['<|open|>', 'kimi_k3'],
  ['<function name="', 'minicpm5'],
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
  ['<|tool_call_start|>', 'lfm2'],
  ['<function_calls>', 'olmo3'],
  ['<|/tool|>', 'phi4'],
  ['<|tool_call|>', 'granite'],
  ['<arg_key>', 'glm47'],
  ['<function=', 'qwen3_coder'],
  ['<tool_calls>[', 'jamba'],
  ['<tool_call>', 'hermes'],
  ['<TOOLCALL>', 'nemotron_deci'],
  ['<tool_calls>', 'jamba'],
  ['[TOOL_CALLS]', 'mistral'],
  ['<|python_start|>', 'pythonic'],
  ['<|python_tag|>', 'llama3_json'],
  ['functools[', 'phi4'],
  ['<function_call>', 'granite_20b_fc'],
  ['[func_name1(', 'pythonic'],
]

/** Detects the format from a chat template; null if unknown. */
export function detectToolCallParser(template: string): string | null {
  const suffix = hunyuanSuffixOf(template, 'tool_calls')
  if (suffix !== null && hunyuanSuffixOf(template, 'arg_key') === suffix) return `hunyuan${suffix}`
  if (template.includes('function call') && template.includes('<|role_sep|>')) return 'gigachat3'
  const found = DETECTABLE.find(([marker]) => template.includes(marker))?.[1]
  if (found !== undefined) return found
  // Llama models write calls without a marker.
  const isLlama = ['<|start_header_id|>', '<|header_start|>'].some((mark) =>
    template.includes(mark),
  )
  return isLlama && template.includes('"parameters"') ? 'llama3_json' : null
}

/** For an output that is only `{"name":…,"arguments":…}`, the result of a forced tool choice. */
export function createForcedCallParser(): OutputParser {
  return new ToolCallParser(forced, [], true)
}
