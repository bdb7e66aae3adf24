import { describe, expect, it } from 'vitest'
import { everyCut } from '../../../test/text/every-cut.ts'
import { parsedOutput } from '../../../test/text/parsed-output.ts'
import { createToolCallParser } from './tool-formats.ts'

const TOOLS = [
  {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
    },
  },
  { name: 'get_time', parameters: { type: 'object', properties: {} } },
]
const JSON_CALL = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'
const JSON_TIME = '{"name": "get_time", "arguments": {}}'
const LLAMA = JSON_CALL.replace('arguments', 'parameters')
const PARIS = ['get_weather', { city: 'Paris', days: 3 }] as const
const TIME = ['get_time', {}] as const
const mark = (tag: string) =>
  tag.replaceAll('<', '<｜DSML｜').replaceAll('<｜DSML｜/', '</｜DSML｜')
const parameter = (type: string, value: string) =>
  mark(
    `<invoke name="get_weather">\n<parameter name="days" string="${type}">${value}</parameter>\n</invoke>`,
  )

/** What models write instead of their notation; the parsers of vLLM 0.32 read these calls, or most of them. */
const DEVIATIONS: readonly (readonly [
  parser: string,
  what: string,
  output: string,
  text: string,
  calls: readonly (readonly [string, object])[],
])[] = [
  [
    'hy_v3',
    'text between calls of a section',
    '<tool_calls>\n<tool_call>get_time<tool_sep></tool_call>\nThen the weather:\n<tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n</tool_calls>',
    'Then the weather:\n',
    [TIME, PARIS],
  ],
  [
    'minimax_m2',
    'text between calls of a section',
    '<minimax:tool_call>\n<invoke name="get_time">\n</invoke>\nThen:\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>',
    'Then:\n',
    [TIME, PARIS],
  ],
  [
    'kimi_k2',
    'text between calls of a section',
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>{}<|tool_call_end|>Then:\n<|tool_call_begin|>functions.get_weather:1<|tool_call_argument_begin|>{"city": "Paris", "days": 3}<|tool_call_end|><|tool_calls_section_end|>',
    'Then:\n',
    [TIME, PARIS],
  ],
  [
    'deepseek_v31',
    'text between calls of a section, and no third call',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜>Then: <｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris", "days": 3}<｜tool▁call▁end｜> and so on<｜tool▁calls▁end｜>',
    'Then: and so on',
    [TIME, PARIS],
  ],
  [
    'minimax_m2',
    'single quotes',
    "<minimax:tool_call><invoke name='get_weather'><parameter name='city'>Paris</parameter><parameter name='days'>3</parameter></invoke></minimax:tool_call>",
    '',
    [PARIS],
  ],
  [
    'minimax_m2',
    'no quotes',
    '<minimax:tool_call>\n<invoke name=get_weather>\n<parameter name=city>Paris</parameter>\n<parameter name=days>3</parameter>\n</invoke>\n</minimax:tool_call>',
    '',
    [PARIS],
  ],
  [
    'minimax_m2',
    'a closing tag of a value is missing',
    '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris\n<parameter name="days">3\n</invoke>\n</minimax:tool_call>',
    '',
    [PARIS],
  ],
  [
    'qwen3_coder',
    'blanks in tags',
    '<tool_call>\n<function= get_weather >\n<parameter= city >\nParis\n</parameter>\n<parameter=days >\n3\n</parameter>\n</function>\n</tool_call>',
    '',
    [PARIS],
  ],
  [
    'qwen3_coder',
    'quotes in tags',
    '<tool_call>\n<function="get_weather">\n<parameter="city">\nParis\n</parameter>\n<parameter=\'days\'>\n3\n</parameter>\n</function>\n</tool_call>',
    '',
    [PARIS],
  ],
  [
    'deepseek_v32',
    'no section',
    `Ok. ${parameter('false', '3')}\n${mark('<invoke name="get_time">\n</invoke>')}`,
    'Ok. ',
    [['get_weather', { days: 3 }], TIME],
  ],
  [
    'deepseek_v32',
    'only the end of the section',
    `${parameter('false', '3')}\n${mark('</function_calls>')}`,
    '',
    [['get_weather', { days: 3 }]],
  ],
  [
    'deepseek_v32',
    'a number that is called a string',
    mark('<function_calls>\n') + parameter('true', '3') + mark('\n</function_calls>'),
    '',
    [['get_weather', { days: 3 }]],
  ],
  [
    'pythonic',
    'three quotes',
    `[get_weather(city="""a "b"\n'c'""", days=3), get_weather(city='''x''')]`,
    '',
    [
      ['get_weather', { city: 'a "b"\n\'c\'', days: 3 }],
      ['get_weather', { city: 'x' }],
    ],
  ],
  [
    'pythonic',
    'empty strings',
    `[get_weather(city=""), get_weather(city='')]`,
    '',
    [
      ['get_weather', { city: '' }],
      ['get_weather', { city: '' }],
    ],
  ],
  ['xlam', 'a fence', `\`\`\`json\n[${JSON_CALL}, ${JSON_TIME}]\n\`\`\``, '', [PARIS, TIME]],
  [
    'hermes',
    'the opening tag for the closing tag',
    `Ok.\n<tool_call>\n${JSON_CALL}\n<tool_call>\n${JSON_TIME}\n</tool_call>`,
    'Ok.\n',
    [PARIS, TIME],
  ],
  ['llama3_json', 'text before the call', `I look.\n\n${LLAMA}`, 'I look.\n\n', [PARIS]],
  [
    'llama4_json',
    'text before two calls',
    `I look.\n${LLAMA}; ${LLAMA}`,
    'I look.\n',
    [PARIS, PARIS],
  ],
  [
    'gemma4',
    'texts without quotes',
    '<|tool_call>call:get_weather{city: New York ,days:3}<tool_call|><|tool_call>call:get_weather{days:3,city:Paris}<tool_call|>',
    '',
    [['get_weather', { city: 'New York', days: 3 }], PARIS],
  ],
  [
    'openai',
    'no namespace of the tool',
    '<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=get_weather <|constrain|>json<|message|>{"city": "Paris", "days": 3}<|call|>',
    '',
    [PARIS],
  ],
]

/** Nothing of this is a call. */
const NO_CALLS: readonly (readonly [string, string])[] = [
  ['deepseek_v32', mark('see <invoke name="nobody">\n</invoke>')],
  ['xlam', 'So:\n```json\n{"a": 1}\n```\nthat is all.'],
  ['llama3_json', 'JSON:\n{"name": "x", "a": [1]}\nand\n{"a": 2}\n{}\n{'],
  ['llama3_json', `quoted: ${LLAMA}`],
]

describe('what models write instead of their notation', () => {
  it.each(DEVIATIONS)('%s, %s - is read, in pieces of any size', (name, _, output, text, calls) => {
    for (const pieces of everyCut(output)) {
      const found = parsedOutput(createToolCallParser(name, TOOLS), pieces)
      const read = found.calls.map(([tool, json]) => [tool, JSON.parse(json) as unknown])
      expect([pieces, found.text, read]).toEqual([pieces, text, calls])
    }
  })

  it.each(NO_CALLS)('%s, %j - stays text', (name, output) => {
    for (const pieces of everyCut(output)) {
      const found = parsedOutput(createToolCallParser(name, TOOLS), pieces)
      expect(found).toEqual({ text: output, reasoning: '', calls: [] })
    }
  })
})
