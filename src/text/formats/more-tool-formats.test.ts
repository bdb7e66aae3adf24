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
const NAMED = (key: string) => `{"name": "get_weather", "${key}": {"city": "Paris", "days": 3}}`
const WEATHER = ['get_weather', '{"city": "Paris", "days": 3}'] as const
const TIGHT = ['get_weather', '{"city":"Paris","days":3}'] as const
const TIME = ['get_time', '{}'] as const
const TIME_JSON = '{"name": "get_time", "arguments": {}}'
const SEED =
  '<function=get_weather>\n<parameter=city>Paris</parameter>\n<parameter=days>3</parameter>\n</function>'
const STEP =
  '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather"><steptml:parameter name="city">Paris</steptml:parameter><steptml:parameter name="days">3</steptml:parameter></steptml:invoke><｜tool_call_end｜>'
const PYTHON = 'get_weather(city="Paris", days=3)'

/** Forms are written from what the models' chat templates put before past calls, named behind each; none is a recording. */
const SAMPLES: readonly (readonly [
  parser: string,
  form: string,
  output: string,
  text: string,
  calls: readonly (readonly [string, string])[],
])[] = [
  ['granite', '3.0', `<|tool_call|>[${NAMED('arguments')}]`, '', [WEATHER]],
  [
    'granite',
    '3.1 to 3.3, without a closing tag',
    `<tool_call>[${NAMED('arguments')}, ${TIME_JSON}]`,
    '',
    [WEATHER, TIME],
  ],
  ['granite', '4', `<tool_call>\n${NAMED('arguments')}\n</tool_call>`, '', [WEATHER]],
  [
    'granite_20b_fc',
    'granite-20b-functioncalling',
    `<function_call> ${NAMED('arguments')}<function_call> ${TIME_JSON}`,
    '',
    [WEATHER, TIME],
  ],
  [
    'phi4_mini_json',
    'Phi-4-mini-instruct, tags',
    `<|tool_call|>[${NAMED('arguments')}]<|/tool_call|>`,
    '',
    [WEATHER],
  ],
  ['phi4', 'Phi-4-mini-instruct, functools', `functools[${NAMED('arguments')}]`, '', [WEATHER]],
  [
    'internlm',
    'InternLM 2.5',
    `I look.<|action_start|><|plugin|>\n${NAMED('parameters')}<|action_end|>\n`,
    'I look.',
    [WEATHER],
  ],
  [
    'command_r7b',
    'Command R7B and A',
    '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris", "days": 3}},\n    {"tool_call_id": "1", "tool_name": "get_time", "parameters": {}}\n]<|END_ACTION|>',
    '',
    [WEATHER, TIME],
  ],
  ['seed_oss', 'Seed-OSS-36B', `<seed:tool_call>\n${SEED}\n</seed:tool_call>`, '', [TIGHT]],
  [
    'longcat',
    'LongCat-Flash',
    `<longcat_tool_call>\n${NAMED('arguments')}\n</longcat_tool_call>\n<longcat_tool_call>${TIME_JSON}</longcat_tool_call>`,
    '',
    [WEATHER, TIME],
  ],
  [
    'step3',
    'Step3',
    `Ok.<｜tool_calls_begin｜>\n${STEP}\n${STEP}\n<｜tool_calls_end｜>`,
    'Ok.',
    [TIGHT, TIGHT],
  ],
  [
    'olmo3',
    'Olmo 3, a call per line',
    `<function_calls>\n${PYTHON}\nget_time()\n</function_calls>`,
    '',
    [TIGHT, TIME],
  ],
  [
    'lfm2',
    'LFM2',
    `<|tool_call_start|>[${PYTHON}, get_time()]<|tool_call_end|>Checking.`,
    'Checking.',
    [TIGHT, TIME],
  ],
  [
    'functiongemma',
    'FunctionGemma 270M',
    '<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call><start_function_call>call:get_time{}<end_function_call>',
    '',
    [TIGHT, TIME],
  ],
  [
    'hunyuan_a13b',
    'Hunyuan-A13B',
    `<tool_calls>[${NAMED('arguments')}]</tool_calls>`,
    '',
    [WEATHER],
  ],
  ['ernie45', 'ERNIE 4.5', `<tool_call>\n${NAMED('arguments')}\n</tool_call>\n`, '', [WEATHER]],
]

describe('further tool formats', () => {
  it.each(SAMPLES)('%s, %s - is parsed, in pieces of any size', (name, _, output, text, calls) => {
    for (const pieces of everyCut(output)) {
      expect(parsedOutput(createToolCallParser(name, TOOLS), pieces)).toEqual({
        text,
        reasoning: '',
        calls,
      })
    }
  })

  it.each(SAMPLES)(
    '%s, %s, cut off anywhere - no call is invented',
    (name, _, output, text, calls) => {
      for (let end = 0; end < output.length; end++) {
        const found = parsedOutput(createToolCallParser(name, TOOLS), [output.slice(0, end)])
        expect(found.calls.length).toBeLessThanOrEqual(calls.length)
        found.calls.forEach(([tool, json], index) => {
          expect(tool).toBe(calls[index]?.[0])
          expect(calls[index]?.[1].startsWith(json.replace(/(?:\}|<.*)$/, ''))).toBe(true)
        })
        if (found.calls.length === 0 && text === '') expect(output.slice(0, end)).toBe(found.text)
      }
    },
  )

  it('text that only resembles a call - stays text', () => {
    for (const [name, output] of [
      ['granite', '<|tool_call|>[1, 2]'],
      ['internlm', '<|action_start|><|plugin|>hello<|action_end|>'],
      ['seed_oss', '<seed:tool_call>no</seed:tool_call>'],
      ['step3', '<｜tool_calls_begin｜>function<｜tool_calls_end｜>'],
      ['olmo3', '<function_calls>none</function_calls>'],
      ['functiongemma', '<start_function_call>call:f{a:oops}<end_function_call>'],
      ['lfm2', '<|tool_call_start|>[f(1)]<|tool_call_end|>'],
    ] as const) {
      for (const pieces of everyCut(output)) {
        const found = parsedOutput(createToolCallParser(name, TOOLS), pieces)
        expect(found).toEqual({ text: output, reasoning: '', calls: [] })
      }
    }
  })

  it.each([
    ['<|tool_call|>', 'granite'],
    ['<|tool|>{{ tools }}<|/tool|>', 'phi4'],
    ['<|action_start|><|plugin|>', 'internlm'],
    ['<|START_ACTION|>', 'command_r7b'],
    ['<seed:tool_call><function=', 'seed_oss'],
    ['<longcat_tool_call>', 'longcat'],
    ['<steptml:invoke', 'step3'],
    ['<function_calls>', 'olmo3'],
    ['<|tool_list_start|>', 'lfm2'],
    ['<start_function_call>', 'functiongemma'],
    ['<|tool_call>', 'gemma4'],
  ])('a template with %s - %s', (template, name) => {
    expect(detectToolCallParser(`… ${template} …`)).toBe(name)
  })
})

/** Difficult content, including the closing tags of sections. */
const TEXT = 'a "b"\\ {é🦊} </tool_call> [x]'
const STREAMS: readonly (readonly [string, string])[] = [
  ['pythonic', `[get_weather(city=${JSON.stringify(TEXT)}, days=3)]`],
  ['olmo3', `<function_calls>get_weather(city=${JSON.stringify(TEXT)}, days=3)</function_calls>`],
  [
    'glm47',
    `<tool_call>get_weather<arg_key>city</arg_key><arg_value>${TEXT}</arg_value><arg_key>days</arg_key><arg_value>3</arg_value></tool_call>`,
  ],
  ['gemma4', `<|tool_call>call:get_weather{city:<|"|>${TEXT}<|"|>,days:3}<tool_call|>`],
]

describe('arguments that are not JSON', () => {
  it.each(STREAMS)('%s - strings stream as they arrive, in pieces of any size', (name, output) => {
    for (const pieces of everyCut(output)) {
      const { text, calls } = parsedOutput(createToolCallParser(name, TOOLS), pieces)
      expect({ text, calls }).toEqual({
        text: '',
        calls: [['get_weather', JSON.stringify({ city: TEXT, days: 3 })]],
      })
    }
    const parser = createToolCallParser(name, TOOLS)
    const events = parser?.push(output.slice(0, output.indexOf('a ') + 2)) ?? []
    expect(events[0]).toEqual({ kind: 'tool-call-start', index: 0, name: 'get_weather' })
    expect(events.map((event) => ('text' in event ? event.text : '')).join('')).toBe('{"city":"a ')
  })

  it('invalid content after the start of the arguments - is kept as the model wrote it', () => {
    for (const pieces of everyCut('<|tool_call>call:f{a:[1,2}<tool_call|> x')) {
      const { text, calls } = parsedOutput(createToolCallParser('gemma4', TOOLS), pieces)
      expect({ text, calls }).toEqual({ text: ' x', calls: [['f', '{"a":[1,2}']] })
    }
  })

  it('Python escapes, numbers and lists - become JSON, in pieces of any size', () => {
    const output = `[f(a='\\x41\\u00e9\\U0001f98a\\101\\q\\'', b=[1_000, -2.5, (True, None,)], c={'k': .5}, d=12345678901234567890)]`
    const json =
      '{"a":"Aé🦊A\\\\q\'","b":[1000,-2.5,[true,null]],"c":{"k":0.5},"d":12345678901234567890}'
    for (const pieces of everyCut(output)) {
      const { calls } = parsedOutput(createToolCallParser('pythonic', [{ name: 'f' }]), pieces)
      expect(calls).toEqual([['f', json]])
    }
  })
})
