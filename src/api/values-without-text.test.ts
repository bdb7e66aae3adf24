/** Bodies with an object in the place of any value for which `String` throws, as `{"toString": 1}` makes it do. */
import { describe, expect, it } from 'vitest'
import { refusal } from '../../test/api/refusal.ts'
import {
  parseAnthropicMessages,
  parseChatRequest,
  parseCompletionRequest,
  parseEmbeddingRequest,
  parseResponsesRequest,
  parseTokenRequest,
} from './index.ts'
import { parseRerank } from './requests/rerank-request.ts'

const WITHOUT_TEXT = { toString: 1, valueOf: 2 }

type Fields = Record<string, unknown>

const parameters = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }
const fields = {
  model: 'm',
  max_tokens: 5,
  stop: ['x'],
  logit_bias: { 5: 1 },
  metadata: { a: 'b' },
  user: 'u',
  nvext: {
    agent_hints: { priority: 1 },
    annotations: ['a'],
    backend_instance_id: 1,
    session_control: { session_id: 'a', action: 'open' },
    routing_constraints: { required_taints: ['a'], preferred_taints: { b: 1 } },
  },
}
const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":"b"}' } }

const BODIES: readonly (readonly [string, (body: Fields) => unknown, Fields])[] = [
  [
    'chat',
    parseChatRequest,
    {
      ...fields,
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'hi' }] },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c', content: 'ok' },
      ],
      tools: [{ type: 'function', function: { name: 'f', parameters, strict: true } }],
      tool_choice: { type: 'function', function: { name: 'f' } },
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema: parameters } },
      chat_template_kwargs: { a: 1 },
    },
  ],
  ['completion', parseCompletionRequest, { ...fields, prompt: ['hi'], guided_json: parameters }],
  [
    'responses',
    parseResponsesRequest,
    {
      model: 'm',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
        { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: 'x' },
        { type: 'reasoning', id: 'r', summary: [{ type: 'summary_text', text: 's' }] },
      ],
      tools: [{ type: 'function', name: 'f', parameters, strict: true }],
      text: { format: { type: 'json_schema', name: 'n', schema: parameters } },
    },
  ],
  [
    'messages',
    parseAnthropicMessages,
    {
      model: 'm',
      max_tokens: 5,
      system: [{ type: 'text', text: 's' }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'hi' }] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: {} }] },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'ok' }] },
      ],
      tools: [{ name: 'f', input_schema: parameters }],
      tool_choice: { type: 'tool', name: 'f' },
    },
  ],
  ['embeddings', parseEmbeddingRequest, { model: 'm', input: ['hi'], dimensions: 4 }],
  ['rerank', parseRerank, { model: 'm', query: 'q', documents: ['a', { text: 'b' }], top_n: 1 }],
  ['tokens', parseTokenRequest, { token_ids: [1], sampling_params: { stop: ['a'], seed: 1 } }],
]

/** Copies of a value with one of its inner values replaced, and the path of that one. */
function replacedIn(value: unknown): { readonly path: string; readonly copy: unknown }[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    [{ path: '', copy: WITHOUT_TEXT as unknown }, ...replacedIn(inner)].map(({ path, copy }) => ({
      path: `/${key}${path}`,
      copy: Array.isArray(value) ? value.with(Number(key), copy) : { ...value, [key]: copy },
    })),
  )
}

describe('an object that cannot be converted to text', () => {
  it.each(BODIES)('%s - is accepted or refused in the place of any value', (_, parse, body) => {
    expect(refusal(() => parse(body))).toBeNull()
    for (const { path, copy } of replacedIn(body)) {
      // Any other error than a refusal is thrown.
      const error = refusal(() => parse(copy as Fields))
      expect(`${path}: ${error?.message ?? ''}`).not.toContain('[object')
    }
  })
})
