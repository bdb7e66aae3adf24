import { describe, expect, it } from 'vitest'
import { interpreter } from './python-rules.ts'

const schema = {
  type: ['number', 'null'],
  items: { type: 'string' },
  properties: { items: {}, b: {} },
  default: null,
  f: 1.5,
}
const variables = { schema, no: null, yes: true, list: [3, 1, 2], text: "it's\n", tiny: 1e-7 }

/** Each with what Jinja 3.1 in Python writes. */
const CASES = [
  ['{{ no | string }}', 'None'],
  ['{{ yes | string }} {{ schema.f | string }} {{ 1.0 | string }}', 'True 1.5 1.0'],
  ['{{ schema.type | string }}', "['number', 'null']"],
  ['{{ schema.type | upper }}', "['NUMBER', 'NULL']"],
  ['{{ schema.type | map("upper") | list | tojson }}', '["NUMBER", "NULL"]'],
  ['{{ schema.properties | string }}', "{'items': {}, 'b': {}}"],
  ['{{ [text, "\\"", "a\\\\b", none, tiny] | string }}', `["it's\\n", '"', 'a\\\\b', None, 1e-07]`],
  ['{{ missing | upper }}|{{ missing | string }}|{{ 5 | trim }}', '||5'],
  ['{{ "a" ~ yes ~ 1 ~ list ~ missing }}', 'aTrue1[3, 1, 2]'],
  [
    '{{ [[1, "a"] in [[1, "a"], 2], [1] not in [[2]], none in [none]] | string }}',
    '[True, True, True]',
  ],
  [
    '{{ [1 in list, "b" in schema.properties, "t" in text, "1" in list] | string }}',
    '[True, True, True, False]',
  ],
  ['{{ ["x" in missing, "x" not in missing] | string }}', '[False, True]'],
  ['{% for a, b in [("x", 1), ("y", 2)] %}{{ a }}{{ b }}{% endfor %}', 'x1y2'],
  ['{% set a, b = (1, 2) %}{{ a }}{{ b }}', '12'],
  [
    '{{ "\n  code\n".lstrip("\n") }}|{{ "abca".strip("ac") }}|{{ "x\n\n".rstrip("\n") }}',
    '  code\n|b|x',
  ],
  ['{{ "😀a😀x😀".strip("😀x") }}|{{ "aaa".strip("a") }}|{{ "😀".lstrip("a") }}', 'a||😀'],
  ['{{ " a ".strip() }}|{{ " a ".lstrip() }}|{{ " a ".rstrip() }}', 'a|a | a'],
  ['{{ "<{}{}>{{}}".format("a", no) }} {{ "{1}{0}".format("a", "b") }}', '<aNone>{} ba'],
  ['{{ "ab" * 2 }}{{ "ab" * 0 }}|{{ 2 * 3 }}', 'abab|6'],
  ['{{ list | min }}{{ list | max }}', '13'],
  [
    '{% for key, value in schema.items() %}{{ key }},{% endfor %}',
    'type,items,properties,default,f,',
  ],
  [
    '{% set d = {16: 1, 2: 3} %}{% for k, v in d | dictsort %}{{ k - 1 }}{{ v }},{% endfor %}{{ d[16] }}',
    '13,151,1',
  ],
  [
    '{% macro m(x) %}{{ kwargs.y | upper }}{{ x | string }}{% endmacro %}{{ m(no, y="a") }}',
    'ANone',
  ],
  ['{% for m in [1, 2] if m in [2] %}{{ m ~ "!" }}{% else %}-{% endfor %}', '2!'],
] as const

describe('the rules of Python', () => {
  it.each(CASES)('%s', (source, written) => {
    expect(interpreter(source)(variables)).toBe(written)
  })

  it('a missing text - is an error, so that messages are tried in another form', () => {
    for (const source of [
      '{{ no | trim }}',
      '{{ "a" ~ no }}',
      '{{ "a" in no }}',
      '{{ no.strip("a") }}',
    ])
      expect(() => interpreter(source)(variables)).toThrow()
  })

  it('names of the functions - are of no use to a template or a request', () => {
    expect(interpreter('{{ str is defined }}{{ no | string }}')({ ' str': 1, no: null })).toBe(
      'falseNone',
    )
  })
})
