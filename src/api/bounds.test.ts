import { describe, expect, it } from 'vitest'
import { refusal } from '../../test/api/refusal.ts'
import { parseChatRequest } from './requests/chat-request.ts'
import { parseCompletionRequest } from './requests/completion-request.ts'

const chat = (fields: Record<string, unknown>) =>
  parseChatRequest({ messages: [{ role: 'user', content: 'hi' }], ...fields })
const completion = (fields: Record<string, unknown>) =>
  parseCompletionRequest({ prompt: 'hi', ...fields })

const EPS = 1e-6
const many = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)
const tool = (name: string) => ({ type: 'function', function: { name } })
const tokenIds = (count: number): number[] => many(count, 1)

/** field, values that are accepted (the bounds themselves), values that are not (just beyond). */
const BOUNDS: readonly (readonly [string, readonly unknown[], readonly unknown[]])[] = [
  ['temperature', [0, EPS, 1, 2 - EPS, 2], [-EPS, 2 + EPS, '1']],
  ['top_p', [0, EPS, 1 - EPS, 1], [-EPS, 1 + EPS]],
  ['top_k', [-1, 0, 1, 4294967295], [-2, 1.5, 4294967296]],
  ['min_p', [0, EPS, 1 - EPS, 1], [-EPS, 1 + EPS]],
  ['frequency_penalty', [-2, 2 - EPS, 0, 2], [-2 - EPS, 2 + EPS]],
  ['presence_penalty', [-2, EPS - 2, 0, 2], [-2 - EPS, 2 + EPS]],
  ['repetition_penalty', [EPS, 1, 2], [-EPS, 0, 2 + EPS]],
  ['n', [1, 2, 127, 128], [0, 129, 1.5]],
  [
    'seed',
    [-9007199254740991, -5, 0, 9007199254740991],
    [-9007199254740992, 9007199254740992, 0.5],
  ],
  [
    'logit_bias',
    [{}, { 1: -100, 2: 100, 3: 0 }],
    [{ 1: -100 - EPS }, { 1: 100 + EPS }, { x: 1 }, { '-1': 1 }],
  ],
  ['max_tokens', [0, 1, 4294967295], [-1, 0.5, 4294967296]],
  ['max_completion_tokens', [0, 1, 4294967295], [-1, 4294967296]],
  ['min_tokens', [0, 1, 4294967295], [-1, 4294967296]],
  [
    'stop',
    ['a', 'a'.repeat(4096), [], many(31, 'a'), many(32, 'a'), tokenIds(31), tokenIds(32)],
    ['', [''], 'a'.repeat(4097), ['a'.repeat(4097)], many(33, 'a'), tokenIds(33), [-1], ['a', 1]],
  ],
  [
    'stop_token_ids',
    [[], tokenIds(31), tokenIds(32), [4294967295]],
    [tokenIds(33), [-1], [4294967296]],
  ],
  [
    'tools',
    [
      many(1535, tool('f')),
      many(1536, tool('f')),
      [tool('x')],
      [tool('x'.repeat(95))],
      [tool('x'.repeat(96))],
    ],
    [many(1537, tool('f')), [tool('')], [tool('x'.repeat(97))]],
  ],
  ['model', ['m'], ['', '  ', 4]],
  ['user', ['u'], ['', ' ']],
  [
    'messages',
    [
      [{ role: 'user', content: '' }],
      [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: null },
      ],
    ],
    [[], 'hi', [{ role: 'king', content: 'x' }], [{ role: 'user' }], [{ role: 'system' }]],
  ],
  ['stream', [true, false], ['yes', 1]],
]

describe('bounds of chat requests', () => {
  for (const [field, good, bad] of BOUNDS) {
    it(`${field} - accepted at the limit, refused beyond it, by name`, () => {
      for (const value of good) expect(refusal(() => chat({ [field]: value }))).toBeNull()
      for (const value of bad) {
        const error = refusal(() => chat({ [field]: value }))
        expect([value, error?.code]).toEqual([value, 'request.invalid_argument'])
        expect(error?.message).toContain(`\`${field}`)
      }
    })
  }

  it('top_logprobs - 0 to 20, and only with logprobs', () => {
    for (const top of [0, 1, 19, 20]) {
      expect(chat({ logprobs: true, top_logprobs: top }).output.logprobs).toBe(top)
    }
    for (const top of [-1, 21, 0.5]) {
      expect(refusal(() => chat({ logprobs: true, top_logprobs: top }))?.message).toContain(
        '`top_logprobs`',
      )
    }
    expect(refusal(() => chat({ top_logprobs: 1 }))?.message).toContain('`logprobs: true`')
  })

  it('n with temperature 0 - refused', () => {
    expect(refusal(() => chat({ n: 2, temperature: 0 }))?.message).toContain('`n`')
    expect(refusal(() => chat({ n: 2 }))).toBeNull()
  })

  it('min_tokens - must not exceed max_tokens', () => {
    expect(refusal(() => chat({ min_tokens: 4, max_tokens: 3 }))?.message).toContain('min_tokens')
    expect(chat({ min_tokens: 3, max_tokens: 3 }).stop).toMatchObject({ minTokens: 3 })
  })

  it('stream_options - only with stream', () => {
    expect(refusal(() => chat({ stream_options: {} }))?.message).toContain('stream_options')
    expect(refusal(() => chat({ stream: true, stream_options: {} }))).toBeNull()
  })

  it('unknown and unsupported fields - refused by name', () => {
    for (const field of [
      'speed',
      'use_beam_search',
      'allowed_token_ids',
      'bad_words_token_ids',
      'audio',
      'web_search_options',
      'mm_processor_kwargs',
      'chat_template',
      'prompt',
    ]) {
      const error = refusal(() => chat({ [field]: 1 }))
      expect([field, error?.code]).toEqual([field, 'request.unsupported_parameter'])
      expect(error?.data['param']).toBe(field)
    }
  })

  it('defaults sent by clients of vLLM and SGLang - accepted; other values are refused by name', () => {
    const defaults = {
      detokenize: true,
      use_beam_search: false,
      priority: 0,
      include_reasoning: true,
      separate_reasoning: true,
      stream_reasoning: true,
      spaces_between_special_tokens: true,
      return_hidden_states: false,
      no_stop_trim: false,
      length_penalty: 1,
      early_stopping: false,
      cache_prompt: true,
      id_slot: -1,
      timings_per_token: false,
      best_of: 1,
      echo: false,
      add_special_tokens: false,
    }
    expect(refusal(() => chat(defaults))).toBeNull()
    for (const [field, value] of Object.entries(defaults)) {
      const other = typeof value === 'boolean' ? !value : value + 1
      expect(refusal(() => chat({ [field]: other }))?.data['param'], field).toBe(field)
    }
  })

  it('empty lists and objects of vLLM - accepted; non-empty ones are refused by name', () => {
    const empty = { bad_words: [], logits_processors: [], vllm_xargs: {}, mm_processor_kwargs: {} }
    expect(refusal(() => chat(empty))).toBeNull()
    expect(refusal(() => chat({ bad_words: ['x'] }))?.data['param']).toBe('bad_words')
    expect(refusal(() => chat({ vllm_xargs: { a: 1 } }))?.data['param']).toBe('vllm_xargs')
  })

  it('function_call and functions - 501', () => {
    expect(refusal(() => chat({ functions: [] }))?.row.httpStatus).toBe(501)
    expect(refusal(() => chat({ function_call: 'auto' }))?.row.httpStatus).toBe(501)
  })

  it('null - means not given', () => {
    const nulls = { temperature: null, stop: null, stream_options: null, tools: null, nvext: null }
    expect(chat(nulls)).toEqual(chat({}))
  })
})

describe('bounds of completion requests', () => {
  it('logprobs 0..5, best_of 0..20 and not below n nor in a stream, suffix refused', () => {
    for (const logprobs of [0, 1, 4, 5]) {
      expect(completion({ logprobs }).output.logprobs).toBe(logprobs)
    }
    for (const logprobs of [-1, 6]) {
      expect(refusal(() => completion({ logprobs }))?.message).toContain('`logprobs`')
    }
    for (const best of [0, 1, 19, 20]) {
      expect(refusal(() => completion({ best_of: best, n: Math.max(best, 1) }))).toBeNull()
    }
    for (const best of [-1, 21]) {
      expect(refusal(() => completion({ best_of: best, n: 21 }))?.message).toContain('`best_of`')
    }
    expect(completion({ best_of: 2 })).toMatchObject({ choiceCount: 2, bestOf: 1 })
    expect(refusal(() => completion({ best_of: 2, n: 3 }))?.message).toContain('`best_of`')
    expect(refusal(() => completion({ best_of: 2, stream: true }))?.message).toContain('`best_of`')
    expect(refusal(() => completion({ best_of: 20, prompt: Array(7).fill('a') }))).not.toBeNull()
    expect(refusal(() => completion({ suffix: 'x' }))?.data['param']).toBe('suffix')
    expect(refusal(() => completion({ suffix: null }))).toBeNull()
  })

  it('prompts × n - at most 128', () => {
    const prompts = many(64, 'a')
    expect(refusal(() => completion({ prompt: prompts.slice(1), n: 2 }))).toBeNull()
    expect(refusal(() => completion({ prompt: prompts, n: 2 }))).toBeNull()
    expect(refusal(() => completion({ prompt: many(128, 'a') }))).toBeNull()
    expect(refusal(() => completion({ prompt: many(129, 'a') }))?.message).toContain('129')
    expect(refusal(() => completion({ prompt: [...prompts, 'a'], n: 2 }))?.message).toContain('130')
  })

  it('prompt - text, texts, ids, lists of ids', () => {
    const ids = Uint32Array.of(1, 2)
    expect(completion({ prompt: 'a' }).prompts).toEqual(['a'])
    expect(completion({ prompt: ['a', 'b'] }).prompts).toEqual(['a', 'b'])
    expect(completion({ prompt: [1, 2] }).prompts).toEqual([ids])
    expect(
      completion({
        prompt: [
          [1, 2],
          [1, 2],
        ],
      }).prompts,
    ).toEqual([ids, ids])
    for (const bad of [[], [[]], [-1], [1.5], { a: 1 }, 5, ['a', 1]]) {
      expect([bad, refusal(() => completion({ prompt: bad }))?.code]).toEqual([
        bad,
        'request.invalid_argument',
      ])
    }
  })
})

describe('structured output', () => {
  const schema = { type: 'object' }

  it('response_format and guided_* - become the same constraint', () => {
    const guided = (fields: Record<string, unknown>) => chat(fields).sampling.guided
    expect(guided({ response_format: { type: 'text' } })).toBeUndefined()
    const rows: [string, unknown, unknown][] = [
      ['response_format', { type: 'json_object' }, { kind: 'json' }],
      [
        'response_format',
        { type: 'json_schema', json_schema: { name: 's', schema } },
        { kind: 'json-schema', schema, isRelaxed: true },
      ],
      [
        'response_format',
        { type: 'json_schema', json_schema: { name: 's', schema, strict: true } },
        { kind: 'json-schema', schema },
      ],
      ['guided_json', schema, { kind: 'json-schema', schema }],
      ['guided_json', '{"type":"object"}', { kind: 'json-schema', schema }],
      ['guided_regex', 'a+', { kind: 'regex', pattern: 'a+' }],
      ['guided_choice', ['a', 'b'], { kind: 'choice', choices: ['a', 'b'] }],
      ['guided_grammar', 'root ::= "a"', { kind: 'grammar', gbnf: 'root ::= "a"' }],
    ]
    for (const [field, value, shape] of rows) {
      expect(guided({ [field]: value })).toEqual({ ...(shape as object), field })
    }
  })

  it('a schema without name, false as schema, two constraints at once, deep grammar - refused', () => {
    for (const json_schema of [
      { schema },
      { name: '', schema },
      { name: 's' },
      { name: 's', schema: false },
    ]) {
      expect(
        refusal(() => chat({ response_format: { type: 'json_schema', json_schema } })),
      ).not.toBeNull()
    }
    expect(
      refusal(() => chat({ guided_regex: 'a', response_format: { type: 'json_object' } })),
    ).not.toBeNull()
    const nested = (depth: number) => ({
      guided_grammar: `${'('.repeat(depth)}a${')'.repeat(depth)}`,
    })
    expect(refusal(() => chat(nested(499)))).toBeNull()
    expect(refusal(() => chat(nested(500)))).toBeNull()
    expect(refusal(() => chat(nested(501)))).not.toBeNull()
  })

  it('schemas of tools with internal references - are adjusted inside the forced call', () => {
    const tool = (name: string) => ({
      type: 'function',
      function: {
        name,
        parameters: {
          properties: { x: { $ref: '#/$defs/y' }, $ref: { const: { $ref: '#' } } },
          $defs: { y: { type: 'null' } },
        },
      },
    })
    const required = { tools: [tool('f'), tool('g')], tool_choice: 'required' }
    const schema = JSON.stringify(chat(required).sampling.guided)
    expect(schema).toContain('"$ref":"#/anyOf/0/properties/arguments/$defs/y"')
    expect(schema).toContain('"$ref":"#/anyOf/1/properties/arguments/$defs/y"')
    expect(schema).toContain('"$ref":{"const":{"$ref":"#"}}')
  })

  it('tool_choice - a forced call becomes a schema; an unknown tool is refused', () => {
    const parameters = { type: 'object', properties: { x: { type: 'integer' } } }
    const tools = [{ type: 'function', function: { name: 'f', parameters } }]
    expect(chat({ tools }).toolChoice).toBe('auto')
    expect(chat({}).toolChoice).toBe('none')
    const named = chat({ tools, tool_choice: { type: 'function', function: { name: 'f' } } })
    expect(named.sampling.guided).toMatchObject({
      kind: 'json-schema',
      schema: { properties: { name: { const: 'f' }, arguments: parameters } },
    })
    expect(named.sampling.guided?.field).toBe('tools')
    const bare = [{ type: 'function', function: { name: 'f' } }]
    expect(chat({ tools: bare, tool_choice: 'required' }).sampling.guided).toMatchObject({
      schema: { properties: { arguments: { additionalProperties: false } } },
    })
    expect(refusal(() => chat({ tool_choice: 'required' }))).not.toBeNull()
    expect(
      refusal(() => chat({ tools, tool_choice: { type: 'function', function: { name: 'g' } } })),
    ).not.toBeNull()
  })

  it('content parts - text is joined, other parts are refused with their position', () => {
    const parts = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ]
    expect(chat({ messages: [{ role: 'user', content: parts }] }).messages[0]?.content).toBe('a\nb')
    const image = [{ type: 'image_url', image_url: { url: 'x' } }]
    const error = refusal(() => chat({ messages: [{ role: 'user', content: image }] }))
    expect(error?.data['param']).toBe('messages[0].content[0]')
  })
})
