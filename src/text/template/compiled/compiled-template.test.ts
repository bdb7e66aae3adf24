import { readFileSync } from 'node:fs'
import { Template } from '@huggingface/jinja'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { interpreter } from '../python-rules.ts'
import { compileTemplate } from './compiled-template.ts'

const config = JSON.parse(
  readFileSync(
    new URL('../../../../models/storyteller/tokenizer_config.json', import.meta.url),
    'utf8',
  ),
) as { readonly chat_template: string }

type Variables = Readonly<Record<string, unknown>>

/** What the interpreter writes, or that it refuses. */
function interpreted(source: string, variables: Variables): string | null {
  try {
    return interpreter(source)(variables)
  } catch {
    return null
  }
}

/** Null: left to the interpreter. */
function compare(source: string, variables: Variables): string | null {
  const template = new Template(source)
  const compiled = compileTemplate(template.parsed.body)(variables)
  if (compiled !== null) expect(compiled).toBe(interpreted(source, variables))
  return compiled
}

const text = fc.oneof(
  fc.string({ maxLength: 12 }),
  fc.constantFrom('', 'user', 'assistant', 'system', 'tool', ' a\n', '<think>x</think> y', 'é😀'),
)
const leaf = fc.oneof(text, fc.integer({ min: -3, max: 9 }), fc.boolean(), fc.constant(null))
const field = fc.constantFrom('role', 'content', 'name', 'items', 'get', 'length', 'tool_calls')
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    leaf,
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(field, tie('any'), { maxKeys: 3 }),
  ),
})).any
const message = fc.record(
  {
    role: fc.constantFrom('system', 'user', 'assistant', 'tool', 'other'),
    content: fc.oneof({ weight: 4, arbitrary: text }, value),
    tool_calls: value,
    reasoning_content: text,
  },
  { requiredKeys: ['role'] },
)
const variables = fc.record(
  {
    messages: fc.array(message, { maxLength: 4 }),
    tools: fc.oneof(fc.constant(null), fc.array(value, { maxLength: 2 })),
    add_generation_prompt: fc.boolean(),
    enable_thinking: leaf,
    bos_token: fc.constantFrom('', '<s>'),
    x: value,
    y: value,
  },
  { requiredKeys: ['messages'] },
)

const EXPRESSIONS = `
  x ; x.role ; x[0] ; x[-1].role ; x["content"] ; x[y] ; x[1:]
  x[:-1] ; x[y:] ; x[::2] ; x.length ; x.items ; x.constructor ; x.__proto__
  x.toString ; x.constructor() ; x + y ; x - y ; x * y ; x % y ; x / y
  x ~ y ; x == y ; x != y ; x < y ; x >= y ; x in y ; x not in y
  "a" in y ; x in ["a", 1] ; x and y ; x or y ; not x ; -x ; x | trim
  x | length ; x | tojson ; x | first ; x | last ; x | upper ; x | string ; x | list
  x | constructor ; x is constructor ; x | default("d") ; x | items | length ; x is defined ; x is none ; x is string
  x is not mapping ; x is iterable ; x is sequence ; x is number ; x is integer ; x is true ; x is undefined
  x is boolean ; x is odd ; x.strip() ; x.lstrip("a") ; x.strip("ba\\n") ; x.rstrip(y) ; x.split("a") ; x.split() ; x.split("</think>")[-1]
  x.startswith("a") ; x.endswith(y) ; x.get("role") ; x.get("role", y) ; x.get(y) ; x.items() ; x.upper()
  x.keys() ; y if x else "no" ; y if x ; [x, y] ; (x, y) ; {"a": x} ; missing.field
  missing ; range(3) ; true ; None ; namespace ; namespace(a=x).a ; raise_exception("no")
  1.5 ; 1 + 1 ; none
`
  .split(/[;\n]/)
  .map((source) => source.trim())
  .filter((source) => source !== '')

const TEMPLATES = [
  config.chat_template,
  "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}a{% endif %}",
  '{% if messages[0].role == "system" %}{% set rest = messages[1:] %}{% set system = messages[0]["content"] %}{% else %}{% set rest = messages %}{% endif %}{{ system }}{% for m in rest %}{% if (m.role == "user") != (loop.index0 % 2 == 0) %}{{ raise_exception("turns") }}{% endif %}{{ m.content }}{{ loop.last }}{% endfor %}',
  "{% set ns = namespace(found=false, last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.found = true %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.last }}{{ ns }}",
  "{% for m in messages if m.role != 'system' %}{{ loop.index }}/{{ loop.length }}{{ loop.previtem.role }}{{ loop.nextitem }}{% set seen = seen + 1 %}{{ seen }}{% else %}nobody{% endfor %}{{ seen }}{{ m.role }}",
  '{% for key, item in x.items() %}{{ key }}={{ item | tojson }};{% endfor %}{% for k in x %}{{ k }}{% endfor %}',
  '{%- macro show(m) -%}[{{ m.content }}]{%- endmacro -%}{{ bos_token }}{% if tools %}{{ show(messages[0]) }}{% endif %}{{ show is defined }}{{ x == show }}',
  '{%- for m in messages %}{%- if m.content is string %}{{ m.content }}{%- else %}{%- for part in m.content %}{%- if part.type == "text" or "text" in part %}{{ part.text }}{%- endif %}{%- endfor %}{%- endif %}{%- if loop.index > 2 %}{% break %}{% endif %}{%- endfor %}',
  "{% for m in messages %}{% if m.role == 'assistant' and m.reasoning_content is defined %}{% set c = m.content %}{% if '</think>' in c %}{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ c }}{% elif enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>' }}{% endif %}{% endfor %}",
  '{% set a %}{{ x }}{% endset %}{{ a }}{# none #}{% filter upper %}{{ y }}{% endfilter %}',
]

describe('a compiled template', () => {
  it.each(EXPRESSIONS)(
    'writes the same as the interpreter, or leaves it to the interpreter - %s',
    (source) => {
      fc.assert(
        fc.property(value, value, (x, y) => {
          compare(`{{ ${source} }}|{% if ${source} %}1{% else %}0{% endif %}`, { x, y })
        }),
        { numRuns: 40 },
      )
    },
  )

  it.each(TEMPLATES.map((source, index) => [index, source] as const))(
    'writes the same as the interpreter, or leaves it to the interpreter - template %i',
    (_index, source) => {
      fc.assert(
        fc.property(variables, (given) => {
          compare(source, given)
        }),
        { numRuns: 120 },
      )
    },
  )

  it('a chat of plain texts and one with tools - are not left to the interpreter', () => {
    const messages = [
      { role: 'system', content: 'Be kind.' },
      { role: 'user', content: 'Tell me a story' },
      {
        role: 'assistant',
        content: 'Once',
        tool_calls: [{ name: 'f', arguments: { a: [1, null] } }],
      },
      { role: 'tool', content: '3' },
    ]
    const plain = { messages, tools: null, add_generation_prompt: true }
    expect(compare(config.chat_template, plain)).toContain('Tell me a story')
    const tools = [{ name: 'f', parameters: { type: 'object', required: [] } }]
    expect(compare(config.chat_template, { ...plain, tools })).toContain('"required": []')
    for (const source of TEMPLATES.slice(1, 4)) {
      const turns = [{ role: 'user', content: 'a' }]
      if (!source.includes('{{ ns }}')) expect(compare(source, { messages: turns })).not.toBeNull()
    }
  })

  it('a variable named like a constant or function - is left to the interpreter', () => {
    for (const name of ['true', 'None', 'range', 'namespace', 'raise_exception']) {
      expect(compare('{{ x }}', { x: 'a', [name]: 'b' })).toBeNull()
    }
    expect(compare('{{ x }}', { x: 'a', loop: 'b' })).toBe('a')
  })
})
