import { describe, expect, it } from 'vitest'
import { refusal } from '../../test/api/refusal.ts'
import {
  openApiDocument,
  parseAnthropicMessages,
  parseChatRequest,
  parseCompletionRequest,
  parseEmbeddingRequest,
  parseResponsesRequest,
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
  })

  it('a bias - is no token id, and is not dropped', () => {
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
    // The document for clients still says what is asked for.
    expect(JSON.stringify(openApiDocument('1'))).toContain('"logit_bias":{"type":"object"')
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
