import { describe, expect, it } from 'vitest'
import { everyCut } from '../../../test/text/every-cut.ts'
import { GbnfLanguage } from '../../../test/text/gbnf-language.ts'
import { parsedOutput } from '../../../test/text/parsed-output.ts'
import { GuidedOutputParser } from '../output/guided-output-parser.ts'
import { thoughtFormOf } from '../formats/reasoning-formats.ts'
import { callFormsOf, createToolCallParser } from '../formats/tool-formats.ts'
import { guidedGrammar } from '../grammar/guided-grammar.ts'
import { modelOutputGrammar } from './model-output-gbnf.ts'
import type { ModelOutputForm } from './model-output-gbnf.ts'
import { textUntil } from './text-until.ts'

const ANSWER = {
  kind: 'json-schema',
  schema: { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] },
} as const
const CALL = {
  kind: 'json-schema',
  schema: {
    type: 'object',
    properties: {
      name: { const: 'add' },
      arguments: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
    },
    required: ['name', 'arguments'],
  },
} as const
const TOOLS = [{ name: 'add', parameters: CALL.schema.properties.arguments }]

function formOf(
  reasoning: string | null,
  toolCalls: string | null,
  promptText = '',
): ModelOutputForm {
  return {
    thought: reasoning === null ? null : thoughtFormOf(reasoning, { promptText }),
    calls: toolCalls === null ? [] : callFormsOf(toolCalls, TOOLS),
    allowsSeveralCalls: true,
  }
}

function languageOf(form: ModelOutputForm): GbnfLanguage {
  return new GbnfLanguage(modelOutputGrammar(guidedGrammar(ANSWER), guidedGrammar(CALL), form))
}

function read(form: ModelOutputForm, toolCalls: string | null, text: string) {
  const options = {
    ...form,
    callParser: toolCalls === null ? null : createToolCallParser(toolCalls, TOOLS),
    answerParser: null,
  }
  const outputs = everyCut(text).map((pieces) =>
    parsedOutput(
      new GuidedOutputParser({
        ...options,
        callParser: toolCalls === null ? null : createToolCallParser(toolCalls, TOOLS),
      }),
      pieces,
    ),
  )
  const [first] = outputs
  for (const output of outputs) expect(output).toEqual(first)
  return first
}

const OK = '{"ok":true}'
const HERMES = '<tool_call>\n{"name":"add","arguments":{"n":1}}\n</tool_call>'

describe('textUntil', () => {
  it('one closing text - accepts everything up to the first one and nothing after it', () => {
    const language = new GbnfLanguage(`root ::= t\n${textUntil('t', ['</think>'])}`)
    for (const text of ['</think>', 'a</think>', '<</think>', '</</think>', '</thin</think>'])
      expect([text, language.has(text)]).toEqual([text, true])
    for (const text of ['', 'a', '</think', '</think>a', '</think></think>'])
      expect([text, language.has(text)]).toEqual([text, false])
  })

  it('several closing texts with common letters - the first one ends the text', () => {
    const closes = ['aab', 'abab', 'bb', ']^-\\']
    const language = new GbnfLanguage(`root ::= t\n${textUntil('t', closes)}`)
    const letters = ['a', 'b', '-']
    let texts = ['']
    for (let length = 1; length <= 7; length++) {
      texts = texts.flatMap((text) => letters.map((letter) => text + letter))
      for (const text of texts) {
        const first = closes
          .filter((close) => text.includes(close))
          .map((close) => text.indexOf(close) + close.length)
        expect([text, language.has(text)]).toEqual([text, Math.min(...first) === text.length])
      }
    }
    expect(language.has('x]^-\\')).toBe(true)
  })
})

describe('call or answer', () => {
  it('hermes - a constrained call, several calls, or the answer, and nothing else', () => {
    const language = languageOf(formOf(null, 'hermes'))
    for (const text of [OK, HERMES, `${HERMES}\n${HERMES}`])
      expect([text, language.has(text)]).toEqual([text, true])
    for (const text of [
      `${OK}${HERMES}`,
      `${HERMES}${OK}`,
      'Well, hello',
      '<tool_call>{"name":"sub","arguments":{"n":1}}</tool_call>',
      '<tool_call>{"name":"add","arguments":{"n":"1"}}</tool_call>',
    ])
      expect([text, language.has(text)]).toEqual([text, false])
    const one = languageOf({ ...formOf(null, 'hermes'), allowsSeveralCalls: false })
    expect([one.has(HERMES), one.has(`${HERMES}\n${HERMES}`)]).toEqual([true, false])
  })

  it('other notations - a call in the notation of the model, or the answer', () => {
    const calls: readonly (readonly [string, string])[] = [
      [
        'qwen3_coder',
        '<tool_call>\n<function=add>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>',
      ],
      ['mistral', '[TOOL_CALLS][{"name":"add","arguments":{"n":1}}]'],
      ['pythonic', '[add(n=1)]'],
      [
        'kimi_k2',
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"n":1}<|tool_call_end|><|tool_calls_section_end|>',
      ],
      ['glm45', '<tool_call>add\n<arg_key>n</arg_key>\n<arg_value>1</arg_value>\n</tool_call>'],
    ]
    for (const [name, call] of calls) {
      const form = formOf(null, name)
      const language = languageOf(form)
      expect([name, language.has(call), language.has(OK)]).toEqual([name, true, true])
      const output = read(form, name, call)
      expect([name, output?.calls.map(([tool, json]) => [tool, JSON.parse(json)])]).toEqual([
        name,
        [['add', { n: 1 }]],
      ])
      expect(read(form, name, OK)).toEqual({ text: OK, reasoning: '', calls: [] })
    }
  })

  it('cut off by the token limit before a call is certain - no marker becomes text', () => {
    const held = (name: string) =>
      new GuidedOutputParser({
        ...formOf(null, name),
        callParser: createToolCallParser(name, TOOLS, true),
        answerParser: null,
      })
    const cuts: readonly (readonly [string, string, string[]])[] = [
      ['hermes', HERMES, ['add']],
      ['qwen3_coder', '<tool_call>\n<function=add>\n<parameter=n>', ['add']],
      ['glm45', '<tool_call>add\n<arg_key>n</arg_key>', ['add']],
      ['mistral', '[TOOL_CALLS][{"name":"add","arguments":{', ['add']],
      [
        'kimi_k2',
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_arg',
        [],
      ],
      ['pythonic', '[add(n', []],
    ]
    for (const [name, call, names] of cuts) {
      const opens = callFormsOf(name, TOOLS).map(({ open }) => open)
      const open = opens.find((text) => call.startsWith(text)) ?? ''
      for (let at = open.length; at <= call.length; at++) {
        for (const pieces of everyCut(call.slice(0, at))) {
          const { text, calls } = parsedOutput(held(name), pieces, true)
          expect([name, at, text]).toEqual([name, at, ''])
          if (at === call.length) expect(calls.map(([tool]) => tool)).toEqual(names)
        }
      }
    }
    const harmony = new GuidedOutputParser({
      thought: thoughtFormOf('gpt_oss', { promptText: '' }),
      calls: [],
      callParser: null,
      answerParser: null,
    })
    const begun = '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>fin'
    expect(parsedOutput(harmony, [begun], true)).toEqual({ text: '', reasoning: 'Hm.', calls: [] })
  })

  it('an answer that mentions tags - is the answer', () => {
    const text = '{"ok":"<tool_call> </think> <think>"}'
    const form = formOf('qwen3', 'hermes')
    expect(read(form, 'hermes', text)).toEqual({ text, reasoning: '', calls: [] })
    expect(read(form, 'hermes', `<think>Hm</think>\n\n${text}`)).toEqual({
      text,
      reasoning: 'Hm',
      calls: [],
    })
  })
})

describe('an answer after reasoning', () => {
  it('a model that may reason - optional reasoning, then the shape', () => {
    const form = formOf('qwen3', 'hermes')
    const language = languageOf(form)
    for (const text of [OK, `<think>a < b</think>\n\n${OK}`, `<think></think>${HERMES}`])
      expect([text, language.has(text)]).toEqual([text, true])
    for (const text of ['<think>a', `<think>a</think>`, `Hm</think>${OK}`, `<think>${OK}`])
      expect([text, language.has(text)]).toEqual([text, false])
  })

  it('an output that begins inside reasoning - the closing tag is required', () => {
    for (const [name, prompt] of [
      ['deepseek_r1', 'question'],
      ['qwen3', 'question<think>\n'],
    ] as const) {
      const form = formOf(name, null, prompt)
      const language = languageOf(form)
      expect([language.has(`Hm</think>${OK}`), language.has(OK)]).toEqual([true, false])
      expect(read(form, null, `Hm</think>\n${OK}`)).toEqual({
        text: OK,
        reasoning: 'Hm',
        calls: [],
      })
      expect(read(form, null, 'Hm, and so')).toEqual({
        text: '',
        reasoning: 'Hm, and so',
        calls: [],
      })
    }
  })

  it('reasoning closed by the prompt, or thinking disabled - only the shape', () => {
    expect(thoughtFormOf('qwen3', { promptText: '<think>\n\n</think>\n\n' })).toBeNull()
    expect(thoughtFormOf('qwen3', { isThinkingOff: true })).toBeNull()
    expect(thoughtFormOf('minimax_append_think')).toBeNull()
    expect(thoughtFormOf('no such')).toBeNull()
  })

  it('harmony - the answer is in the final channel, a call in commentary', () => {
    const form = formOf('gpt_oss', 'harmony')
    const language = languageOf(form)
    const final = `<|channel|>final<|message|>${OK}`
    const thought = '<|channel|>analysis<|message|>Hm<|end|><|start|>assistant'
    for (const text of [final, thought + final]) expect(language.has(text)).toBe(true)
    expect(language.has(OK)).toBe(false)
    expect(read(form, 'harmony', thought + final)).toEqual({
      text: OK,
      reasoning: 'Hm',
      calls: [],
    })
    const call = '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"n":1}'
    expect(language.has(thought + call)).toBe(true)
    expect(read(form, 'harmony', thought + call)?.calls).toEqual([['add', '{"n":1}']])
  })

  it('muse - headers begin with a blank', () => {
    const form = formOf('muse', 'muse')
    const language = languageOf(form)
    const final = ` to=user<|message|>${OK}`
    const thought = ' to=self<|message|>Hm<|eom|><|start|>assistant'
    const answer = { text: OK, calls: [] }
    for (const text of [final, thought + final]) expect(language.has(text)).toBe(true)
    expect(read(form, 'muse', final)).toEqual({ ...answer, reasoning: '' })
    expect(read(form, 'muse', thought + final)).toEqual({ ...answer, reasoning: 'Hm' })
    const call =
      ' to=add<|message|><atem:function_calls><atem:invoke name="add"><atem:parameter name="n">1</atem:parameter></atem:invoke></atem:function_calls>'
    expect(read(form, 'muse', thought + call)?.calls).toEqual([['add', '{"n":1}']])
  })

  it('a grammar of the client - its rule names do not collide with ours', () => {
    const gbnf = 'root ::= "root" answer [a-z] # root\nanswer ::= "x"{2} | gap\ngap ::= "\\"root"'
    const language = new GbnfLanguage(modelOutputGrammar(gbnf, '', formOf('qwen3', null)))
    for (const text of ['rootxxa', 'root"rootz', '<think>t</think>rootxxa'])
      expect([text, language.has(text)]).toEqual([text, true])
    expect(language.has('rootxa')).toBe(false)
  })
})
