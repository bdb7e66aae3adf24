import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { storyteller } from '../../../test/frontend/scripted-frontend.ts'
import { everyCut } from '../../../test/text/every-cut.ts'
import { parsedOutput } from '../../../test/text/parsed-output.ts'
import { Detokenizer } from '../detokenize/detokenizer.ts'
import type { OfferedTool } from '../output/output-event.ts'
import { createForcedCallParser, createToolCallParser } from './tool-formats.ts'

const TOOLS: readonly OfferedTool[] = [
  {
    name: 'write',
    parameters: {
      properties: {
        path: { type: 'string' },
        text: { type: 'string' },
        lines: { type: 'integer' },
      },
    },
  },
]
/** Difficult content: quotes, backslashes, line breaks, closing tags, braces, characters of two units. */
const TEXT = 'a "b"\\n\n</tool_call> {é🦊} </parameter\n'
const JSON_TEXT = JSON.stringify({ path: 'x', text: TEXT, lines: 3 })

/** One call of `write`, as each format writes it around its arguments. */
const JSON_FORMS: Readonly<Record<string, (json: string) => string>> = {
  hermes: (json) => `<tool_call>\n{"name": "write", "arguments": ${json}}\n</tool_call>`,
  qwen25: (json) => `<tool_call>{"name":"write","arguments":${json}}</tool_call>`,
  nemotron_deci: (json) => `<TOOLCALL>[{"name":"write","arguments":${json}}]</TOOLCALL>`,
  jamba: (json) => `<tool_calls>[{"name":"write","arguments":${json}}]</tool_calls>`,
  llama3_json: (json) => `<|python_tag|>{"name": "write", "parameters": ${json}}`,
  'llama3_json ': (json) => `{"type":"function","function":{"name":"write","parameters":${json}}}`,
  phi4: (json) => `functools[{"name": "write", "arguments": ${json}}]`,
  mistral: (json) => `[TOOL_CALLS][{"name": "write", "arguments": ${json}}]`,
  'mistral ': (json) => `[TOOL_CALLS]write[CALL_ID]abc123[ARGS]${json}`,
  deepseek_v3: (json) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write\n\`\`\`json\n${json}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  deepseek_v3_1: (json) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write<｜tool▁sep｜>${json}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  kimi_k2: (json) =>
    `<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>${json}<|tool_call_end|><|tool_calls_section_end|>`,
  harmony: (json) =>
    `<|channel|>commentary to=functions.write <|constrain|>json<|message|>${json}<|call|>`,
}

const TAGGED_FORMS: Readonly<Record<string, string>> = {
  qwen3_coder: `<tool_call>\n<function=write>\n<parameter=path>\nx\n</parameter>\n<parameter=text>\n${TEXT}\n</parameter>\n<parameter=lines>\n3\n</parameter>\n</function>\n</tool_call>`,
  minimax_m2: `<minimax:tool_call>\n<invoke name="write">\n<parameter name="path">x</parameter>\n<parameter name="text">\n${TEXT}\n</parameter>\n<parameter name="lines">3</parameter>\n</invoke>\n</minimax:tool_call>`,
  deepseek_v3_2: `<｜DSML｜function_calls>\n<｜DSML｜invoke name="write">\n<｜DSML｜parameter name="path" string="true">x</｜DSML｜parameter>\n<｜DSML｜parameter name="text" string="true">${TEXT}</｜DSML｜parameter>\n<｜DSML｜parameter name="lines" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>`,
}

/** At which character of the output each character of the arguments was given on, at the latest. */
function delays(name: string, output: string, argumentsJson: string): number {
  const parser = createToolCallParser(name.trim(), TOOLS)
  let given = ''
  let started = false
  let worst = 0
  for (let at = 0; at < output.length; at++) {
    for (const event of parser?.push(output.charAt(at)) ?? []) {
      if (event.kind === 'tool-call-start') started = true
      if (event.kind === 'tool-call-arguments') given += event.text
    }
    const begin = output.indexOf(argumentsJson)
    if (at < begin || begin < 0) continue
    expect(started).toBe(true)
    const due = Math.min(argumentsJson.length, at + 1 - begin)
    worst = Math.max(worst, due - given.length)
  }
  return worst
}

describe('streamed arguments of tool calls', () => {
  it.each(Object.entries(JSON_FORMS))(
    '%s - arrive as they are written, in pieces of any size',
    (name, form) => {
      const output = form(JSON_TEXT)
      for (const pieces of everyCut(output)) {
        expect(parsedOutput(createToolCallParser(name.trim(), TOOLS), pieces)).toEqual({
          text: '',
          reasoning: '',
          calls: [['write', JSON_TEXT]],
        })
      }
      // The harmony parser must recognise that the held text is not a marker.
      expect(delays(name, output, JSON_TEXT)).toBeLessThanOrEqual(name === 'harmony' ? 12 : 0)
    },
  )

  it.each(Object.entries(TAGGED_FORMS))(
    '%s - strings arrive as they are written, in pieces of any size',
    (name, output) => {
      const cuts = everyCut(output)
      const [whole] = parsedOutput(createToolCallParser(name, TOOLS), cuts[0] ?? []).calls
      expect([whole?.[0], JSON.parse(whole?.[1] ?? '')]).toEqual(['write', JSON.parse(JSON_TEXT)])
      for (const pieces of cuts) {
        expect(parsedOutput(createToolCallParser(name, TOOLS), pieces).calls).toEqual([whole])
      }
      const parser = createToolCallParser(name, TOOLS)
      const begin = output.slice(0, output.indexOf('a "b"') + 5)
      const events = parser?.push(begin) ?? []
      expect(events.map((event) => ('text' in event ? event.text : '')).join('')).toBe(
        '{"path":"x","text":"a \\"b\\"',
      )
    },
  )

  it.each(Object.entries(JSON_FORMS))(
    '%s, cut off anywhere - nothing is invented, nothing is lost',
    (name, form) => {
      const output = form(JSON_TEXT)
      for (let end = 0; end <= output.length; end++) {
        const begin = output.slice(0, end)
        const { text, calls } = parsedOutput(createToolCallParser(name.trim(), TOOLS), [begin])
        if (calls.length === 0) expect(text === begin || name === 'harmony').toBe(true)
        else {
          expect(calls).toHaveLength(1)
          expect(
            JSON_TEXT.startsWith(calls[0]?.[1] ?? '?') || begin.endsWith(calls[0]?.[1] ?? '?'),
          ).toBe(true)
          expect(text).toBe('')
        }
      }
    },
  )

  it.each<[string, string, string, readonly (readonly [string, string])[]]>([
    [
      'arguments before the name',
      '{"arguments":{"a":1},"id":7,"name":"write"}',
      '',
      [['write', '{"a":1}']],
    ],
    [
      'arguments in a string',
      '{"name":"write","arguments":"{\\"a\\":[1]}"}',
      '',
      [['write', '{"a":[1]}']],
    ],
    ['no arguments', '{"name":"write"}', '', [['write', '{}']]],
    ['nothing as arguments', '{"name":"write","arguments":null}', '', [['write', '{}']]],
    [
      'line breaks inside of a text',
      '{"name":"write","arguments":{"a":"1\n2\t"}}',
      '',
      [['write', '{"a":"1\\n2\\t"}']],
    ],
    ['a brace too few', '{"name":"write","arguments":{"a":1}', '', [['write', '{"a":1}']]],
    ['two braces too few', '{"name":"write","arguments":{"a":1', '', [['write', '{"a":1']]],
    [
      'arguments that are no JSON',
      '{"name":"write","arguments":{"a": True, "b": \'</x>\'}}',
      '',
      [['write', '{"a": True, "b": \'</x>\'}}']],
    ],
    [
      'arguments that are no object',
      '{"name":"write","arguments":[1]}',
      '<tool_call>{"name":"write","arguments":[1]}</tool_call>',
      [],
    ],
    [
      'a name that is no text',
      '{"name":3,"arguments":{}}',
      '<tool_call>{"name":3,"arguments":{}}</tool_call>',
      [],
    ],
    ['no call at all', '', '<tool_call></tool_call>', []],
    [
      'words behind the call',
      '{"name":"write","arguments":{}} and so on',
      'and so on',
      [['write', '{}']],
    ],
    [
      'a second call that is none',
      '[{"name":"write","arguments":{}}, {"nam": 1}]',
      '{"nam": 1}]',
      [['write', '{}']],
    ],
    [
      'several calls',
      '{"name":"write","arguments":{"a":1}}\n{"name":"b"}',
      '',
      [
        ['write', '{"a":1}'],
        ['b', '{}'],
      ],
    ],
  ])('%s - told as what it is, however cut', (_what, body, text, calls) => {
    for (const pieces of everyCut(`<tool_call>${body}</tool_call>`)) {
      const output = parsedOutput(createToolCallParser('hermes', TOOLS), pieces)
      expect({ text: output.text, calls: output.calls }).toEqual({ text, calls })
    }
  })

  it('without markers - only a call of an offered tool is one; the rest is text', () => {
    const call = '{"name": "write", "parameters": {"a": 1}}'
    for (const pieces of everyCut(`${call}; {"name":"other"} x`)) {
      const { text, calls } = parsedOutput(createToolCallParser('llama3_json', TOOLS), pieces)
      expect({ text, calls }).toEqual({
        text: '{"name":"other"} x',
        calls: [['write', '{"a": 1}']],
      })
    }
  })

  it('a forced call - streams, too; an incomplete one stays incomplete', () => {
    const output = '{"name": "write", "arguments": {"text": "é🦊"}}'
    for (const pieces of everyCut(output)) {
      expect(parsedOutput(createForcedCallParser(), pieces).calls).toEqual([
        ['write', '{"text": "é🦊"}'],
      ])
    }
    const parser = createForcedCallParser()
    expect(parser.push(output.slice(0, -3)).at(-1)).toMatchObject({ text: '{"text": "é🦊' })
    expect(parsedOutput(createForcedCallParser(), ['{"name": "wr'])).toMatchObject({
      text: '{"name": "wr',
      calls: [],
    })
  })

  it('a forced call cut off by the token limit at any character - is a call once its name is complete, never text', () => {
    const outputs = [
      '{"name": "write", "arguments": {"text": "é\\n"}}',
      '{"arguments": {"a": 1}, "name": "write"}',
    ]
    for (const [nth, output] of outputs.entries()) {
      const named = output.indexOf('"write"') + '"write"'.length
      const [from, to] = [output.indexOf(nth === 0 ? '{"text' : '{"a"'), output.length - 1]
      for (let at = 0; at <= output.length; at++) {
        for (const pieces of everyCut(output.slice(0, at))) {
          const { text, calls } = parsedOutput(createForcedCallParser(), pieces, true)
          const json = nth === 0 ? output.slice(from, Math.max(from, Math.min(at, to))) : '{"a": 1}'
          expect([at, text, calls]).toEqual([at, '', at < named ? [] : [['write', json]]])
        }
      }
    }
    const prose = parsedOutput(createForcedCallParser(), ['I will not.'], true)
    expect(prose).toEqual({ text: 'I will not.', reasoning: '', calls: [] })
  })

  it('one-byte tokens through the detokenizer - the same calls', () => {
    const { tokenizer } = storyteller()
    const tokenOfByte = new Map<number, number>()
    for (let id = 0; id < tokenizer.vocabSize; id++) {
      const [byte, ...more] = tokenizer.tokenBytes(id)
      if (byte !== undefined && more.length === 0) tokenOfByte.set(byte, id)
    }
    for (const [name, form] of Object.entries(JSON_FORMS)) {
      const detokenizer = new Detokenizer(tokenizer)
      const bytes = new TextEncoder().encode(form(JSON_TEXT))
      const pieces = Array.from(bytes, (byte) => detokenizer.push(tokenOfByte.get(byte) ?? -1))
      const { calls } = parsedOutput(createToolCallParser(name.trim(), TOOLS), pieces)
      expect(calls).toEqual([['write', JSON_TEXT]])
    }
  })

  it('any JSON object as arguments - same text and same value', () => {
    const names = fc.constantFrom(...Object.keys(JSON_FORMS))
    const object = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue())
    fc.assert(
      fc.property(
        names,
        object,
        fc.array(fc.nat(), { maxLength: 6 }),
        fc.nat(3),
        (name, value, cuts, indent) => {
          const json = JSON.stringify(value, null, indent)
          // Markers of harmony are control tokens, never text.
          fc.pre(name !== 'harmony' || !json.includes('<|'))
          const output = JSON_FORMS[name]?.(json) ?? ''
          const places = [
            0,
            ...cuts.map((cut) => cut % output.length).toSorted((a, b) => a - b),
            output.length,
          ]
          const pieces = places.map((place, index) => output.slice(places[index - 1] ?? 0, place))
          const { calls } = parsedOutput(createToolCallParser(name.trim(), TOOLS), pieces)
          expect(calls).toEqual([['write', json]])
        },
      ),
    )
  })
})
