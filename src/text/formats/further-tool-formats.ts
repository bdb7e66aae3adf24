/** Tool call formats that need code of their own. */
import { JsonCallReader } from '../output/json-call-reader.ts'
import type { ToolFormat } from '../output/tool-call-parser.ts'
import { NestedCallReader } from '../output/nested-call-reader.ts'
import {
  argKeys,
  jsonOr,
  marked,
  section,
  tagged,
  taggedFrom,
  wrapped,
} from './tool-format-kinds.ts'

/**
 * Hunyuan: Hy3 and Hy4 write `<tool_call>name<tool_sep>` with keys and values, A13B a JSON list. Their checkpoints
 * append a suffix to each tag name, for example `<tool_calls:opensource>`.
 */
export function hunyuanOf(suffix: string): ToolFormat {
  const open = (name: string) => `<${name}${suffix}>`
  const close = (name: string) => `</${name}${suffix}>`
  const pair = (name: string) => [open(name), close(name)] as const
  const separator = open('tool_sep')
  const key = pair('arg_key')
  const value = pair('arg_value')
  const call = pair('tool_call')
  return {
    sections: [section(open('tool_calls'), close('tool_calls')), section(...call)],
    innerMarkers: [separator, ...key, ...value],
    ...jsonOr(wrapped(call, argKeys({ key, value, separator }))),
  }
}

const IFM_CALL = ['<ifm|tool_call>', '</ifm|tool_call>'] as const
const IFM_KEY = ['<ifm|arg_key>', '</ifm|arg_key>'] as const
const IFM_VALUE = ['<ifm|arg_value>', '</ifm|arg_value>'] as const
const IFM_TYPE = ['<ifm|arg_type>', '</ifm|arg_type>'] as const

export const k2Horizon: ToolFormat = {
  sections: [section('<ifm|tool_calls>', '</ifm|tool_calls>'), section(...IFM_CALL)],
  innerMarkers: [...IFM_KEY, ...IFM_VALUE, ...IFM_TYPE],
  ...wrapped(IFM_CALL, jsonOr(argKeys({ key: IFM_KEY, value: IFM_VALUE, type: IFM_TYPE }))),
}

const MINIMAX_MARK = ']<]minimax[>['

export const minimaxM3: ToolFormat = {
  sections: [section(`${MINIMAX_MARK}<tool_call>`, `${MINIMAX_MARK}</tool_call>`)],
  innerMarkers: [MINIMAX_MARK, '<tool_call>', '</tool_call>'],
  createReader: (_section, tools) => new NestedCallReader(MINIMAX_MARK, tools),
}

const quoted = (text: string) => text.replaceAll('&quot;', '"').replaceAll('&amp;', '&')

export const kimiK3: ToolFormat = {
  sections: [section('<|open|>tools<|sep|>', '<|close|>tools<|sep|>')],
  innerMarkers: ['<|open|>', '<|close|>', '<|sep|>'],
  ...tagged({
    tagEnd: '<|sep|>',
    call: /^<\|open\|>call\s(?:[^]*\s)?tool="([^"]+)"[^]*<\|sep\|>$/,
    callEnd: '<|close|>call<|sep|>',
    parameter:
      /^<\|open\|>argument(?=[^]*\skey="([^"]*)")(?:(?=[^]*\stype="([^"]*)"))?[^]*<\|sep\|>$/,
    parameterEnd: '<|close|>argument<|sep|>',
    trimsLineBreaks: false,
    decodeName: quoted,
  }),
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  amp: '&',
}
const CDATA = /^<!\[CDATA\[([^]*)\]\]>$/

function xmlText(text: string): string {
  const trimmed = text.trim()
  const raw = CDATA.exec(trimmed)?.[1]
  return raw ?? trimmed.replace(/&(\w+);/g, (all, name: string) => ENTITIES[name] ?? all)
}

const MINICPM_CALL = '<function name="'

export const minicpm5: ToolFormat = {
  sections: [section(MINICPM_CALL, null)],
  ...taggedFrom(MINICPM_CALL, {
    call: /^<function name="([^"]+)"[^>]*>$/,
    callEnd: '</function>',
    parameter: /^<param name=["']([^"']+)["']\s*>$/,
    parameterEnd: '</param>',
    trimsLineBreaks: false,
    decodeValue: xmlText,
  }),
}

const plamo = (name: string) => `<|plamo:${name}:plamo|>`

export const plamo3: ToolFormat = {
  sections: [section(plamo('begin_tool_requests'), plamo('end_tool_requests'))],
  innerMarkers: [
    ...['begin_tool_request', 'end_tool_request', 'begin_tool_name', 'end_tool_name'].map(plamo),
    ...['begin_tool_arguments', 'end_tool_arguments'].map(plamo),
    '<|plamo:constrain|>',
    '<|plamo:msg|>',
    // The vocabulary contains parts of the markers as tokens.
    '<|plamo:begin_',
    '<|plamo:end_',
    ':plamo|>',
  ],
  ...marked({
    begin: plamo('begin_tool_request'),
    end: plamo('end_tool_request'),
    head: /^\s*<\|plamo:begin_tool_name:plamo\|>([^<]+)<\|plamo:end_tool_name:plamo\|>\s*(?:<\|plamo:begin_tool_arguments:plamo\|>\s*<\|plamo:constrain\|>json\s*<\|plamo:msg\|>\s*(?:<\|plamo:end_tool_arguments:plamo\|>\s*)?)?$/,
    argumentsEnd: plamo('end_tool_arguments'),
  }),
}

/** Tool calls of Muse, in messages addressed to tools. */
export const museCalls: ToolFormat = {
  sections: [section('<atem:function_calls>', '</atem:function_calls>')],
  ...tagged({
    call: /^<atem:invoke\b[^>]*?\sname="([^"]+)"[^>]*>$/,
    callEnd: '</atem:invoke>',
    parameter: /^<atem:parameter\b[^>]*?\sname="([^"]+)"[^>]*>$/,
    parameterEnd: '</atem:parameter>',
    trimsLineBreaks: false,
  }),
}

/** Tool calls of Inkling, in invocation blocks. */
export const inklingCalls: ToolFormat = {
  sections: [section('<|content_invoke_tool_json|>', '<|end_message|>')],
  createReader: () => new JsonCallReader(),
}

export const dots: ToolFormat = {
  sections: [section('<dots_function_call>', '</dots_function_call>')],
  ...jsonOr(
    tagged({
      call: /^<invoke\s+name\s*=\s*["']?([^"'>]+?)["']?\s*>$/,
      callEnd: '</invoke>',
      parameter: /^<parameter\s+name\s*=\s*["']?([^"'>]+?)["']?\s*>$/,
      parameterEnd: '</parameter>',
      trimsLineBreaks: true,
    }),
  ),
}

/** If the call is a message of its own, a separator precedes it. */
export const gigachat3: ToolFormat = {
  sections: [
    section('<|function_call|>', null),
    section('<|message_sep|>\n\nfunction call<|role_sep|>\n', null),
    section('function call<|role_sep|>\n', null),
  ],
  innerMarkers: ['<|message_sep|>', '<|role_sep|>'],
  createReader: () => new JsonCallReader(),
}

export const apertus: ToolFormat = {
  sections: [section('<|tools_prefix|>', '<|tools_suffix|>')],
  createReader: () => new JsonCallReader({ isKeyed: true }),
}
