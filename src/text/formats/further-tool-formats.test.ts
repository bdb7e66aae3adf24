import { describe, expect, it } from 'vitest'
import { everyCut } from '../../../test/text/every-cut.ts'
import { parsedOutput } from '../../../test/text/parsed-output.ts'
import { createToolCallParser, detectToolCallParser } from './tool-formats.ts'

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
const WEATHER = ['get_weather', '{"city": "Paris", "days": 3}'] as const
const TIGHT = ['get_weather', '{"city":"Paris","days":3}'] as const
const TIME = ['get_time', '{}'] as const
const JSON_CALL = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'

const keyed = (suffix: string, separator: string) =>
  `get_weather${separator}\n<arg_key${suffix}>city</arg_key${suffix}>\n<arg_value${suffix}>Paris</arg_value${suffix}>\n<arg_key${suffix}>days</arg_key${suffix}>\n<arg_value${suffix}>3</arg_value${suffix}>\n`
const hunyuan = (suffix: string, separator: string) =>
  `<tool_calls${suffix}>\n<tool_call${suffix}>${keyed(suffix, separator)}</tool_call${suffix}>\n<tool_call${suffix}>get_time${separator}\n</tool_call${suffix}>\n</tool_calls${suffix}>`
const markup = (head: string, section: string) =>
  `<${head}${section}>\n<${head}invoke name="get_weather">\n<${head}parameter name="city" string="true">Paris</${head}parameter>\n<${head}parameter name="days" string="false">3</${head}parameter>\n</${head}invoke>\n<${head}invoke name="get_time">\n</${head}invoke>\n</${head}${section}>`
const ifm = (name: string, text: string) => `<ifm|${name}>${text}</ifm|${name}>`
const ifmMember = (key: string, type: string, value: string) =>
  `${ifm('arg_key', key)}\n${type === '' ? '' : ifm('arg_type', type)}${ifm('arg_value', value)}\n`
const plamo = (name: string) => `<|plamo:${name}:plamo|>`
const plamoCall = (name: string, json: string) =>
  `${plamo('begin_tool_request')}${plamo('begin_tool_name')}${name}${plamo('end_tool_name')}${plamo('begin_tool_arguments')}<|plamo:constrain|>json<|plamo:msg|>${json}${plamo('end_tool_arguments')}${plamo('end_tool_request')}`
const kimiCall = (name: string, members: string) =>
  `<|open|>call tool="${name}" index="1"<|sep|>${members}<|close|>call<|sep|>`
const kimiMember = (key: string, type: string, value: string) =>
  `<|open|>argument key="${key}" type="${type}"<|sep|>${value}<|close|>argument<|sep|>`

/** Written by hand from the notation that the models are known to use; none is a recording. */
const SAMPLES: readonly (readonly [
  parser: string,
  form: string,
  output: string,
  text: string,
  calls: readonly (readonly [string, string])[],
])[] = [
  [
    'deepseek_v4_1',
    'a blank in each tag',
    `Ok.${markup('｜DSML｜ ', 'calls')}`,
    'Ok.',
    [TIGHT, TIME],
  ],
  [
    'deepseek_v32',
    'arguments as one object, a call without any',
    '<｜DSML｜function_calls><｜DSML｜invoke name="get_weather">\n{"city": "Paris", "days": 3}\n</｜DSML｜invoke><｜DSML｜invoke name="get_time"/></｜DSML｜function_calls>',
    '',
    [WEATHER, TIME],
  ],
  ['gigachat35', 'GigaChat 3.5', markup('｜GCML｜', 'tool_calls'), '', [TIGHT, TIME]],
  ['gigachat3', 'a token of its own', `Ok.<|function_call|>${JSON_CALL}`, 'Ok.', [WEATHER]],
  [
    'gigachat3',
    'a message of its own',
    `Ok.<|message_sep|>\n\nfunction call<|role_sep|>\n${JSON_CALL}`,
    'Ok.',
    [WEATHER],
  ],
  ['gigachat3', 'nothing before', `function call<|role_sep|>\n${JSON_CALL}`, '', [WEATHER]],
  [
    'dots',
    'tags',
    '<dots_function_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n<invoke name=get_time>\n</invoke>\n</dots_function_call>',
    '',
    [TIGHT, TIME],
  ],
  ['dots', 'JSON', `<dots_function_call>\n${JSON_CALL}\n</dots_function_call>`, '', [WEATHER]],
  ['iquest_q1', 'IQuest Q1', `<iquest_tool_call>${keyed('', '')}</iquest_tool_call>`, '', [TIGHT]],
  [
    'apertus',
    'the name as key',
    'Ok.<|tools_prefix|>[{"get_weather": {"city": "Paris", "days": 3}}, {"get_time": {}}]<|tools_suffix|>',
    'Ok.',
    [WEATHER, TIME],
  ],
  ['hy_v3', 'Hy3', hunyuan('', '<tool_sep>'), '', [TIGHT, TIME]],
  ['hy_v4', 'Hy4, no separator', hunyuan('', ''), '', [TIGHT, TIME]],
  [
    'hy_v3:opensource',
    'Hy3 with a suffix',
    hunyuan(':opensource', '<tool_sep:opensource>'),
    '',
    [TIGHT, TIME],
  ],
  ['hunyuan', 'A13B', `<tool_calls>[${JSON_CALL}]</tool_calls>`, '', [WEATHER]],
  ['hunyuan', 'one call', `<tool_call>${keyed('', '<tool_sep>')}</tool_call>`, '', [TIGHT]],
  [
    'k2_horizon',
    'keys and values',
    ifm(
      'tool_calls',
      `\n${ifm('tool_call', `get_weather\n${ifmMember('city', '', 'Paris')}${ifmMember('days', '', '3')}`)}\n${ifm('tool_call', 'get_time')}\n`,
    ),
    '',
    [TIGHT, TIME],
  ],
  [
    'k2_horizon',
    'with types, without a group',
    ifm(
      'tool_call',
      `get_weather\n${ifmMember('city', 'string', 'Paris')}${ifmMember('days', 'integer', '3')}`,
    ),
    '',
    [TIGHT],
  ],
  ['k2_horizon', 'JSON', ifm('tool_calls', ifm('tool_call', JSON_CALL)), '', [WEATHER]],
  [
    'kimi_k3',
    'channels',
    `<|open|>tools<|sep|>${kimiCall('get_weather', kimiMember('city', 'string', 'Paris') + kimiMember('days', 'number', '3'))}${kimiCall('get_time', '')}<|close|>tools<|sep|>`,
    '',
    [TIGHT, TIME],
  ],
  [
    'minicpm5',
    'MiniCPM 5',
    'Ok.<function name="get_weather"><param name="city"><![CDATA[Paris]]></param><param name="days">3</param></function>\n<function name="get_time"></function>',
    'Ok.',
    [TIGHT, TIME],
  ],
  [
    'plamo3',
    'PLaMo 3',
    `${plamo('begin_tool_requests')}${plamoCall('get_weather', '{"city": "Paris", "days": 3}')}${plamoCall('get_time', '{}')}${plamo('end_tool_requests')}`,
    '',
    [WEATHER, TIME],
  ],
  [
    'inkling',
    'Inkling',
    '<|message_model|><|content_text|>Ok.<|end_message|><|message_model|>get_weather<|content_invoke_tool_json|>{"name": "get_weather", "args": {"city": "Paris", "days": 3}}<|end_message|><|message_model|>get_time<|content_invoke_tool_json|>{"name": "get_time", "args": {}}<|end_message|><|content_model_end_sampling|>',
    'Ok.',
    [WEATHER, TIME],
  ],
  ['poolside_v1', 'Laguna', `<tool_call>${keyed('', '\n')}</tool_call>`, '', [TIGHT]],
  ['spark25', 'Spark 2.5', `<tool_call>${keyed('', '\n')}</tool_call>`, '', [TIGHT]],
  [
    'ling3',
    'Ling 3',
    `<tool_call>${keyed('', '')}</tool_call><tool_call>get_time</tool_call>`,
    '',
    [TIGHT, TIME],
  ],
  ['qwen3_json', 'Qwen 3', `<tool_call>\n${JSON_CALL}\n</tool_call>`, '', [WEATHER]],
]

describe('tool formats named by vLLM and SGLang', () => {
  it.each(SAMPLES)('%s, %s - is parsed, in pieces of any size', (name, _, output, text, calls) => {
    for (const pieces of everyCut(output)) {
      const found = parsedOutput(createToolCallParser(name, TOOLS), pieces)
      expect(found).toEqual({ text, reasoning: '', calls })
    }
  })

  it.each(SAMPLES)(
    '%s, %s, cut off anywhere - no call is invented',
    (name, _, output, __, calls) => {
      for (let end = 0; end < output.length; end++) {
        const found = parsedOutput(createToolCallParser(name, TOOLS), [output.slice(0, end)])
        expect(found.calls.length).toBeLessThanOrEqual(calls.length)
        found.calls.forEach(([tool, json], index) => {
          expect(tool).toBe(calls[index]?.[0])
          expect(calls[index]?.[1].startsWith(json.replace(/(?:\}|<.*)$/, ''))).toBe(true)
        })
      }
    },
  )

  it('text that only resembles a call - stays text', () => {
    for (const [name, output] of [
      ['apertus', '<|tools_prefix|>[1]<|tools_suffix|>'],
      ['dots', '<dots_function_call>none</dots_function_call>'],
      ['gigachat3', 'a function call in words'],
      ['gigachat35', '<｜GCML｜tool_calls>no</｜GCML｜tool_calls>'],
      ['hunyuan', '<tool_calls>none</tool_calls>'],
      ['hunyuan', '<tool_calls>\n<tool_call> </tool_call>\n</tool_calls>'],
      ['k2_horizon', '<ifm|tool_calls><ifm|tool_call>{"a": 1}</ifm|tool_call></ifm|tool_calls>'],
      ['kimi_k3', '<|open|>tools<|sep|>none<|close|>tools<|sep|>'],
      ['minicpm5', '<function name="nobody"></function>'],
      ['plamo3', `${plamo('begin_tool_requests')}none${plamo('end_tool_requests')}`],
    ] as const) {
      for (const pieces of everyCut(output)) {
        const found = parsedOutput(createToolCallParser(name, TOOLS), pieces)
        expect(found).toEqual({ text: output, reasoning: '', calls: [] })
      }
    }
  })

  it('escapes of the notations - are decoded', () => {
    for (const [name, output, json] of [
      [
        'minicpm5',
        '<function name="get_weather"><param name="city">a &lt;b&gt; &amp;amp; &quot;c&quot;</param></function>',
        '{"city":"a <b> &amp; \\"c\\""}',
      ],
      [
        'kimi_k3',
        `<|open|>tools<|sep|>${kimiCall('get_weather', kimiMember('a &quot;b&quot; &amp;amp;', 'string', 'x &amp;'))}<|close|>tools<|sep|>`,
        '{"a \\"b\\" &amp;":"x &amp;"}',
      ],
    ] as const) {
      for (const pieces of everyCut(output)) {
        const { calls } = parsedOutput(createToolCallParser(name, TOOLS), pieces)
        expect(calls).toEqual([['get_weather', json]])
      }
    }
  })

  it.each([
    ['<｜DSML｜ calls>', 'deepseek_v4_1'],
    ['<｜DSML｜tool_calls>', 'deepseek_v3_2'],
    ['<｜GCML｜tool_calls>', 'gigachat35'],
    ['<|function_call|>', 'gigachat3'],
    ['<dots_function_call>', 'dots'],
    ['<iquest_tool_call><arg_key>', 'iquest_q1'],
    ['<|tools_prefix|>', 'apertus'],
    ['<tool_calls>\n<tool_call>x<arg_key>', 'hunyuan'],
    ['<tool_calls:os>\n<tool_call:os>x<arg_key:os>', 'hunyuan:os'],
    ['<tool_call>x<arg_key>', 'glm47'],
    ['<ifm|tool_call>', 'k2_horizon'],
    ['<|open|>tools<|sep|>', 'kimi_k3'],
    ['<|content_invoke_tool_json|>', 'inkling'],
    ['<atem:invoke', 'muse'],
    ['<function name="', 'minicpm5'],
    ['<|plamo:begin_tool_requests:plamo|>', 'plamo3'],
  ])('a template with %s - %s', (template, name) => {
    expect(detectToolCallParser(`… ${template} …`)).toBe(name)
  })
})
