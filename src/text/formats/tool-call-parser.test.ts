import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createOutputParser } from './model-output-parser.ts'
import type { OfferedTool, OutputParser } from '../output/output-event.ts'
import {
  createToolCallParser,
  detectToolCallParser,
  TOOL_CALL_PARSER_NAMES,
} from './tool-formats.ts'
import { everyCut } from '../../../test/text/every-cut.ts'

const TOOLS: readonly OfferedTool[] = [
  {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
    },
  },
  { name: 'get_time', parameters: { type: 'object', properties: {} } },
]
const PARIS = '{"city":"Paris"}'
const CALL = `{"name":"get_weather","arguments":${PARIS}}`
const WEATHER = ['get_weather', { city: 'Paris' }] as const
const THREE_DAYS = ['get_weather', { city: 'Paris', days: 3 }] as const
const TIME = ['get_time', {}] as const

interface Outcome {
  text: string
  reasoning: string
  calls: (readonly [string, unknown])[]
}

function run(parser: OutputParser | null, pieces: readonly string[]): Outcome {
  if (parser === null) throw new Error('no such parser')
  const outcome: Outcome = { text: '', reasoning: '', calls: [] }
  const open: { name: string; json: string }[] = []
  for (const event of [...pieces.flatMap((piece) => parser.push(piece)), ...parser.flush()]) {
    if (event.kind === 'text') outcome.text += event.text
    else if (event.kind === 'reasoning') outcome.reasoning += event.text
    else if (event.kind === 'tool-call-start') open[event.index] = { name: event.name, json: '' }
    else if (event.kind === 'tool-call-arguments') open[event.index]!.json += event.text
    else {
      const { name, json } = open[event.index]!
      outcome.calls.push([name, JSON.parse(json)])
    }
  }
  expect(outcome.calls.length).toBe(open.length)
  return outcome
}

type Row = [parser: string, output: string, text: string, calls: (readonly [string, unknown])[]]

const ROWS: Row[] = [
  ['hermes', `<tool_call>\n${CALL}\n</tool_call>`, '', [WEATHER]],
  [
    'hermes',
    `Let me see. <tool_call>${CALL}</tool_call>\n<tool_call>{"name":"get_time","arguments":{}}</tool_call>`,
    'Let me see. ',
    [WEATHER, TIME],
  ],
  ['hermes', `\n\n<tool_call>${CALL}</tool_call> done`, ' done', [WEATHER]],
  // Cut short before the closing tag: the call is whole.
  ['hermes', `<tool_call>\n${CALL}`, '', [WEATHER]],
  // Cut short inside: what there is of it is shown.
  ['hermes', '<tool_call>\n{"name":"get_we', '<tool_call>\n{"name":"get_we', []],
  ['hermes', '<tool_call>{"name": oops</tool_call>', '<tool_call>{"name": oops</tool_call>', []],
  ['hermes', '{"answer": [1, 2]}', '{"answer": [1, 2]}', []],
  [
    'hermes',
    '<tool_call>{"name":"get_weather","arguments":{"city":"</tool_call> \\" é🎉"}}</tool_call>',
    '',
    [['get_weather', { city: '</tool_call> " é🎉' }]],
  ],
  [
    'hermes',
    '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>',
    '',
    [['f', { a: 1 }]],
  ],
  ['hermes', '<tool_call>{"arguments":null,"name":"f"}</tool_call>', '', [['f', {}]]],
  ['qwen25', `<tool_call>${CALL}</tool_call>`, '', [WEATHER]],
  ['nemotron_deci', `<TOOLCALL>[${CALL}]</TOOLCALL>`, '', [WEATHER]],
  ['jamba', `<tool_calls>[${CALL}, {"name":"get_time"}]</tool_calls>`, '', [WEATHER, TIME]],
  ['phi4', `functools[${CALL}]`, '', [WEATHER]],
  ['phi4', 'The functools module', 'The functools module', []],
  ['llama3_json', `<|python_tag|>{"name":"get_weather","parameters":${PARIS}}`, '', [WEATHER]],
  ['llama3_json', `{"name":"get_weather","parameters":${PARIS}}`, '', [WEATHER]],
  [
    'llama3_json',
    `{"name":"get_weather","parameters":${PARIS}}; {"name":"get_time"}`,
    '',
    [WEATHER, TIME],
  ],
  ['llama3_json', '{"type":"function","function":{"name":"get_time","parameters":{}}}', '', [TIME]],
  // Not one of the tools, or not a call: text.
  ['llama3_json', '{"name":"Mira","age":7}', '{"name":"Mira","age":7}', []],
  ['llama3_json', '{"city":"Paris"}', '{"city":"Paris"}', []],
  ['mistral', `[TOOL_CALLS][${CALL}]`, '', [WEATHER]],
  [
    'mistral',
    `[TOOL_CALLS]get_weather[ARGS]${PARIS}[TOOL_CALLS]get_time[ARGS]{}`,
    '',
    [WEATHER, TIME],
  ],
  ['mistral', `[${CALL}]`, '', [WEATHER]],
  ['pythonic', '[get_weather(city="Paris", days=3), get_time()]', '', [THREE_DAYS, TIME]],
  ['pythonic', '<|python_start|>[get_time()]<|python_end|>', '', [TIME]],
  [
    'pythonic',
    "[get_weather(city='it\\'s', days={'a': [1.5, -2, True, None, (1,)]})]",
    '',
    [['get_weather', { city: "it's", days: { a: [1.5, -2, true, null, [1]] } }]],
  ],
  ['pythonic', '[1, 2, 3]', '[1, 2, 3]', []],
  ['pythonic', '[get_time(', '[get_time(', []],
  [
    'deepseek_v3',
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n\`\`\`json\n${PARIS}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
    '',
    [WEATHER],
  ],
  [
    'deepseek_v3_1',
    `ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>${PARIS}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
    'ok',
    [WEATHER, TIME],
  ],
  [
    'deepseek_v3_2',
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    '',
    [THREE_DAYS],
  ],
  [
    'qwen3_coder',
    '<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>',
    '',
    [THREE_DAYS],
  ],
  [
    'minimax_m2',
    '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n</invoke>\n</minimax:tool_call>',
    '',
    [WEATHER],
  ],
  [
    'glm47',
    '<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>',
    '',
    [THREE_DAYS],
  ],
  [
    'kimi_k2',
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>${PARIS}<|tool_call_end|><|tool_calls_section_end|>`,
    '',
    [WEATHER],
  ],
  [
    'gemma4',
    'So: <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|><|tool_call>call:get_time{}<tool_call|>',
    'So: ',
    [THREE_DAYS, TIME],
  ],
  [
    'gemma-4',
    '<|tool_call>call:f{a:<|"|>"x" \\ {1}<|"|>,b:[true,null,-1.5e3,{c:"d"}],<|"|>e f<|"|>:{}}<tool_call|>',
    '',
    [['f', { a: '"x" \\ {1}', b: [true, null, -1500, { c: 'd' }], 'e f': {} }]],
  ],
  [
    'gemma4',
    '<|tool_call>call:f{a:<oops>}<tool_call|>',
    '<|tool_call>call:f{a:<oops>}<tool_call|>',
    [],
  ],
  ['default', `<tool_call>${CALL}</tool_call>`, '', [WEATHER]],
  ['default', `[TOOL_CALLS][${CALL}]`, '', [WEATHER]],
  ['default', CALL, '', [WEATHER]],
  ['default', `[TOOL_CALLS]get_weather[ARGS]${PARIS}`, '', [WEATHER]],
  ['hermes', CALL, '', [WEATHER]],
  ['hermes', '{"name":"unknown","arguments":{}}', '{"name":"unknown","arguments":{}}', []],
  [
    'harmony',
    `<|channel|>commentary<|message|>Looking.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${PARIS}<|call|>`,
    'Looking.',
    [WEATHER],
  ],
  ['harmony', ' to=functions.get_time<|channel|>commentary json<|message|>{}<|call|>', '', [TIME]],
  ['harmony', ' to= or not to=', ' to= or not to=', []],
]

/** Text fragments that formats consist of besides their own markers, and text between them. */
const PARTS = [
  ...(
    'functools <function=get_weather> <parameter=city> <parameter=days> </parameter> </function> </invoke> call:get_time{ ' +
    'days:3} function<｜tool▁sep｜> ``` functions.get_time:0 </｜DSML｜parameter> </｜DSML｜invoke> get_weather <think> ' +
    '</think> final é🦊 \\ " {"name": "get_weather" ,"arguments": {" { } [ ] , < > tool x'
  ).split(' '),
  '<invoke name="get_time">',
  '<｜DSML｜invoke name="get_weather">',
  '<｜DSML｜parameter name="city" string="true">',
  CALL,
  PARIS,
  ' ',
  '\n',
]

describe('tool-call parsers', () => {
  it.each(ROWS)('%s of %j - text and calls, in pieces of any size', (name, output, text, calls) => {
    for (const pieces of everyCut(output)) {
      const outcome = run(createToolCallParser(name, TOOLS), pieces)
      expect({ text: outcome.text, calls: outcome.calls }).toEqual({ text, calls })
    }
  })

  it.each(TOOL_CALL_PARSER_NAMES)('%s - plain text passes unchanged', (name) => {
    for (const text of ['It is 5 < 6 and {not json} [ok].', '', '  ', ' a <tool_cal b', 'x\n\n']) {
      for (const pieces of everyCut(text)) {
        expect(run(createToolCallParser(name, TOOLS), pieces).text).toBe(text)
      }
    }
  })

  it('random text in random pieces - same result as in one piece', () => {
    const output = fc.constantFrom(...TOOL_CALL_PARSER_NAMES).chain((parser) => {
      const own = createToolCallParser(parser)?.markers ?? []
      const part = fc.constantFrom(...own, ...own, ...PARTS)
      return fc.tuple(fc.constant(parser), fc.array(part, { maxLength: 14 }))
    })
    fc.assert(
      fc.property(output, fc.array(fc.nat(), { maxLength: 4 }), ([parser, parts], cuts) => {
        const text = parts.join('')
        const places = cuts.map((cut) => cut % (text.length + 1)).toSorted((a, b) => a - b)
        const pieces = [0, ...places].map((at, index) => text.slice(at, places[index]))
        const make = (): OutputParser | null =>
          createOutputParser({ reasoning: 'qwen3', toolCalls: parser, tools: TOOLS })
        const whole = kinds(make(), [text])
        expect(kinds(make(), pieces)).toEqual(whole)
        expect(kinds(make(), text.split(''))).toEqual(whole)
      }),
      { numRuns: 300 },
    )
  })

  it('names and templates - listed names exist, templates are detected', () => {
    for (const name of TOOL_CALL_PARSER_NAMES) expect(createToolCallParser(name)).not.toBeNull()
    expect(createToolCallParser('nobody')).toBeNull()
    for (const name of [
      'deepseek_v31',
      'llama4_pythonic',
      'qwen3_xml',
      'openai',
      'phi4_mini_json',
      'GLM',
      'interns1',
      'mimo',
      'xlam',
    ])
      expect(createToolCallParser(name), name).not.toBeNull()
    expect(createToolCallParser('DeepSeek-V3_1')).not.toBeNull()
    expect(createToolCallParser('deepseekv4')).not.toBeNull()
    expect(detectToolCallParser('… <tool_call>{"name": …')).toBe('hermes')
    expect(detectToolCallParser('… <tool_call><function=name> …')).toBe('qwen3_coder')
    expect(detectToolCallParser('{{ messages }}')).toBeNull()
  })

  it('text before a call - is emitted at once, not when the call is decided', () => {
    const parser = createToolCallParser('hermes', TOOLS)
    expect(parser?.push('Let me see. <tool')).toEqual([{ kind: 'text', text: 'Let me see. ' }])
    expect(parser?.push('box')).toEqual([{ kind: 'text', text: '<toolbox' }])
  })
})

describe('createOutputParser', () => {
  it('reasoning, text and a call in one output - are separated, in pieces of any size', () => {
    const output = `<think>\nI need <tool_call>{}</tool_call> it.\n</think>\n\nOne moment.<tool_call>${CALL}</tool_call>`
    for (const pieces of everyCut(output)) {
      const parser = createOutputParser({ reasoning: 'qwen3', toolCalls: 'hermes', tools: TOOLS })
      expect(run(parser, pieces)).toEqual({
        text: '\n\nOne moment.',
        reasoning: '\nI need <tool_call>{}</tool_call> it.\n',
        calls: [WEATHER],
      })
    }
  })

  it('nothing to parse - no parser', () => {
    expect(createOutputParser({ reasoning: null, toolCalls: null })).toBeNull()
  })
})

/** Events with adjacent ones of the same kind joined; independent of how the text was cut. */
function kinds(parser: OutputParser | null, pieces: readonly string[]): string[] {
  if (parser === null) throw new Error('no such parser')
  const joined: { key: string; text: string }[] = []
  for (const event of [...pieces.flatMap((piece) => parser.push(piece)), ...parser.flush()]) {
    const key = 'index' in event ? `${event.kind} ${event.index}` : event.kind
    const text = 'text' in event ? event.text : 'name' in event ? event.name : ''
    const last = joined.at(-1)
    if (last?.key === key) last.text += text
    else joined.push({ key, text })
  }
  return joined.map(({ key, text }) => `${key} ${text}`)
}
