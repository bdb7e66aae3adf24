import { describe, expect, it } from 'vitest'
import { refusal } from '../../test/api/refusal.ts'
import {
  openApiDocument,
  parseAnthropicMessages,
  parseChatRequest,
  parseCompletionRequest,
  parseEmbeddingRequest,
  parseResponsesRequest,
  parseTokenRequest,
} from './index.ts'

const MESSAGES = '"messages":[{"role":"user","content":"hi"}]'

/** A body as JSON text, since a literal `__proto__` in a program is no key. */
const BODIES: readonly (readonly [string, (body: Record<string, unknown>) => unknown, string])[] = [
  ['chat', parseChatRequest, MESSAGES],
  ['completion', parseCompletionRequest, '"prompt":"hi"'],
  ['responses', parseResponsesRequest, '"input":"hi"'],
  ['messages', parseAnthropicMessages, `"model":"m","max_tokens":5,${MESSAGES}`],
  ['embeddings', parseEmbeddingRequest, '"input":"hi"'],
]

const parsed = (text: string): Record<string, unknown> =>
  JSON.parse(text) as Record<string, unknown>

describe('a key __proto__ in a body', () => {
  it.each(BODIES)('%s - is an unknown field, and sets none that is known', (_, parse, fields) => {
    expect(refusal(() => parse(parsed(`{${fields}}`)))).toBeNull()
    const error = refusal(() => parse(parsed(`{${fields},"__proto__":{"stream":true}}`)))
    expect(error?.message).toContain('__proto__')
    expect(refusal(() => parse(parsed(`{${fields},"__proto__":null}`)))).toBeNull()
    // Null fields are removed by a copy, which must not set the prototype either.
    for (const more of [
      '"user":null,"__proto__":{"stream":true}',
      '"nvext":{"dp_rank":null,"__proto__":{"dp_rank":1}}',
      '"nvext":{"agent_hints":{"osl":null,"__proto__":{"osl":1}}}',
    ]) {
      expect(refusal(() => parse(parsed(`{${fields},${more}}`)))?.message).toMatch(
        /__proto__|nvext/,
      )
    }
  })

  it('a bias - is refused as an invalid token id, not dropped', () => {
    const fields = '"prompt":"hi","logit_bias":'
    const biased = (biases: string): unknown =>
      parseCompletionRequest(parsed(`{${fields}${biases}}`))
    expect(refusal(() => biased('{"5":1}'))).toBeNull()
    expect(refusal(() => biased('null'))).toBeNull()
    for (const biases of ['{"__proto__":5}', '{"5":1,"__proto__":{"6":1}}']) {
      const error = refusal(() => biased(biases))
      expect([error?.code, error?.message]).toEqual([
        'request.invalid_argument',
        expect.stringMatching(/logit_bias.*__proto__/),
      ])
    }
    expect(refusal(() => biased('[1]'))?.message).toContain('logit_bias')
    // The OpenAPI document still describes the field.
    expect(JSON.stringify(openApiDocument('1'))).toContain('"logit_bias":{"type":"object"')
  })

  it('metadata, template variables, arguments - it is ordinary data', () => {
    const own = '{"a":1,"__proto__":{"b":2}}'
    const call = parseChatRequest(
      parsed(
        `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":${own}}}]},{"role":"tool","tool_call_id":"c","content":"ok"}],"metadata":${own},"chat_template_kwargs":${own},"tools":[{"type":"function","function":{"name":"f","parameters":${own}}}]}`,
      ),
    )
    expect(JSON.stringify(call.templateArguments)).toBe(own)
    expect(JSON.stringify(call.tools[0]?.function.parameters)).toBe(own)
    expect(JSON.stringify(call.messages)).toContain(own)
    // The values of this metadata are texts, and other values are refused.
    const texts = '{"a":"1","__proto__":"2"}'
    const response = parseResponsesRequest(parsed(`{"input":"hi","metadata":${texts}}`))
    expect(JSON.stringify(response)).toContain(texts)
    const messages = parseAnthropicMessages(
      parsed(
        `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":${own}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}],"tools":[{"name":"f","input_schema":${own}}]}`,
      ),
    )
    expect(JSON.stringify(messages).split(own)).toHaveLength(3)
    expect(Object.keys({})).toEqual([])
    expect(({} as Record<string, unknown>)['b']).toBeUndefined()
  })

  it('sampling parameters - it is an unknown field', () => {
    const error = refusal(() =>
      parseTokenRequest(parsed('{"token_ids":[1],"sampling_params":{"__proto__":{"seed":1}}}')),
    )
    expect([error?.code, error?.message]).toEqual([
      'request.unsupported_parameter',
      expect.stringContaining('__proto__'),
    ])
  })

  it('weights of taints - it is a taint, whose weight must be a number', () => {
    const ask = (weight: string): unknown =>
      parseCompletionRequest(
        parsed(
          `{"prompt":"hi","nvext":{"routing_constraints":{"preferred_taints":{"__proto__":${weight}}}}}`,
        ),
      )
    expect(JSON.stringify(ask('2'))).toContain('{"__proto__":2}')
    expect(refusal(() => ask('"x"'))?.message).toMatch(/preferred_taints.*must be a number/)
  })

  it('a schema - may require it', () => {
    const schema =
      '{"type":"object","properties":{"__proto__":{"type":"integer"}},"required":["__proto__"]}'
    const format = `"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${schema}}}`
    const call = parseChatRequest(parsed(`{${MESSAGES},${format}}`))
    expect(call.sampling.guided).toMatchObject({ kind: 'json-schema' })
    expect(JSON.stringify(call.sampling.guided)).toContain(schema)
  })
})
