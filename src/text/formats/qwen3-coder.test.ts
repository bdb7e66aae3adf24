import { describe, expect, it } from 'vitest'
import { everyCut } from '../../../test/text/every-cut.ts'
import { parsedOutput } from '../../../test/text/parsed-output.ts'
import { createToolCallParser } from './tool-formats.ts'

const TOOLS = [
  {
    name: 'plan',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string' },
        days: { type: 'integer' },
        dry: { type: 'boolean' },
        tags: { type: 'array' },
        note: { anyOf: [{ type: 'string' }, { type: 'null' }] },
        label: { type: ['string', 'integer'] },
        mode: { $ref: '#/$defs/mode' },
        // `String()` of the first throws.
        odd: { type: [{ toString: 1 }, 'string'] },
      },
      $defs: { mode: { enum: ['1', '2'] } },
    },
  },
]
const CALL = '<function=plan>\n<parameter=city>\nParis\n</parameter>\n</function>'
const PARIS = ['plan', '{"city":"Paris"}'] as const

describe('qwen3_coder as written by models', () => {
  it.each([
    ['with its section', `Ok.<tool_call>\n${CALL}\n</tool_call>`, 'Ok.', [PARIS]],
    ['without the opener', `Ok.\n${CALL}`, 'Ok.\n', [PARIS]],
    ['without the opener, with the closing tag', `${CALL}\n</tool_call>`, '', [PARIS]],
    ['two without the opener', `${CALL}\n${CALL}`, '', [PARIS, PARIS]],
    [
      'without the opener, no such tool',
      '<function=none>\n</function>',
      '<function=none>\n</function>',
      [],
    ],
    ['a program that writes about it', 'Write <function=x> here.', 'Write <function=x> here.', []],
    [
      'a value without its closing tag, another parameter behind',
      '<tool_call><function=plan>\n<parameter=city>\nParis\n<parameter=days>\n3\n</parameter>\n</function></tool_call>',
      '',
      [['plan', '{"city":"Paris","days":3}']],
    ],
    [
      'a value without its closing tag, the end of the call behind',
      '<tool_call><function=plan>\n<parameter=days>\n3\n</function></tool_call>',
      '',
      [['plan', '{"days":3}']],
    ],
    [
      'literals of Python where the schema wants no text',
      `<tool_call><function=plan>\n<parameter=dry>\nTrue\n</parameter>\n<parameter=tags>\n['a', "b\\x41", None]\n</parameter>\n<parameter=city>\nTrue\n</parameter>\n</function></tool_call>`,
      '',
      [['plan', '{"dry":true,"tags":["a","bA",null],"city":"True"}']],
    ],
    [
      'what may be a text or nothing - digits stay a text, null is nothing',
      '<tool_call><function=plan>\n<parameter=note>\n123\n</parameter>\n<parameter=mode>\n1\n</parameter>\n</function></tool_call>',
      '',
      [['plan', '{"note":"123","mode":"1"}']],
    ],
    [
      'a type that is not a text names none',
      '<tool_call><function=plan>\n<parameter=odd>\n12\n</parameter>\n</function></tool_call>',
      '',
      [['plan', '{"odd":"12"}']],
    ],
    [
      'what may be a text or nothing - null is nothing, a number where one may stand is one',
      '<tool_call><function=plan>\n<parameter=note>\nnull\n</parameter>\n<parameter=label>\n12\n</parameter>\n</function></tool_call>',
      '',
      [['plan', '{"note":null,"label":12}']],
    ],
    [
      'what may be a text or nothing - words and braces are a text',
      '<tool_call><function=plan>\n<parameter=note>\n{"a": True}\n</parameter>\n<parameter=label>\nten\n</parameter>\n</function></tool_call>',
      '',
      [['plan', '{"note":"{\\"a\\": True}","label":"ten"}']],
    ],
  ] as const)('%s - is read, however it is cut', (_, said, text, calls) => {
    for (const pieces of everyCut(said)) {
      const output = parsedOutput(createToolCallParser('qwen3_coder', TOOLS), pieces)
      expect(output).toMatchObject({ text, calls })
    }
  })
})
