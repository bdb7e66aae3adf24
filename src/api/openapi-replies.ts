/**
 * Schemas of replies for `/openapi.json`: the members that clients read. Replies may have further members, so no
 * schema is closed.
 */
import type { OperationEntry } from './openapi-fields.ts'

type Json = Readonly<Record<string, unknown>>

const text = { type: 'string' } as const
const integer = { type: 'integer' } as const
const number = { type: 'number' } as const
const nullable = (type: string): Json => ({ type: [type, 'null'] })
const listOf = (items: Json): Json => ({ type: 'array', items })
const one = (value: string): Json => ({ type: 'string', const: value })
const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` })

/** All members are required, except those whose name ends with `?`. */
function object(members: Readonly<Record<string, Json>>): Json {
  const entries = Object.entries(members)
  return {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, is]) => [name.replace(/\?$/, ''), is])),
    required: entries.flatMap(([name]) => (name.endsWith('?') ? [] : [name])),
  }
}

const toolCall = object({
  id: text,
  type: one('function'),
  function: object({ name: text, arguments: text }),
})

export const REPLY_SCHEMAS: Readonly<Record<string, Json>> = {
  Error: object({
    error: object({
      message: text,
      type: text,
      param: nullable('string'),
      code: text,
      'stage?': text,
    }),
  }),
  AnthropicError: object({
    type: one('error'),
    error: object({ type: text, message: text }),
    'request_id?': text,
  }),
  Usage: object({ prompt_tokens: integer, completion_tokens: integer, total_tokens: integer }),
  ChatCompletion: object({
    id: text,
    object: one('chat.completion'),
    created: integer,
    model: text,
    choices: listOf(
      object({
        index: integer,
        message: object({
          role: one('assistant'),
          content: nullable('string'),
          'reasoning_content?': text,
          'tool_calls?': listOf(toolCall),
        }),
        finish_reason: nullable('string'),
        'token_ids?': listOf(integer),
      }),
    ),
    'prompt_token_ids?': listOf(integer),
    usage: ref('Usage'),
  }),
  Completion: object({
    id: text,
    object: one('text_completion'),
    created: integer,
    model: text,
    choices: listOf(
      object({
        index: integer,
        text,
        finish_reason: nullable('string'),
        'token_ids?': listOf(integer),
        'prompt_token_ids?': listOf(integer),
      }),
    ),
    usage: ref('Usage'),
  }),
  GeneratedTokens: object({
    request_id: text,
    model: text,
    created: integer,
    choices: listOf(
      object({ index: integer, token_ids: listOf(integer), finish_reason: nullable('string') }),
    ),
    usage: ref('Usage'),
  }),
  Response: object({
    id: text,
    object: one('response'),
    created_at: integer,
    model: text,
    status: text,
    output: listOf(object({ id: text, type: text })),
  }),
  Message: object({
    id: text,
    type: one('message'),
    role: one('assistant'),
    model: text,
    content: listOf(object({ type: text })),
    stop_reason: nullable('string'),
    usage: object({ input_tokens: integer, output_tokens: integer }),
  }),
  Conversation: object({
    id: text,
    object: one('conversation'),
    created_at: integer,
    metadata: { type: 'object' },
  }),
  Item: object({ id: text, type: text }),
  Items: object({
    object: one('list'),
    data: listOf(ref('Item')),
    first_id: nullable('string'),
    last_id: nullable('string'),
    has_more: { type: 'boolean' },
  }),
  Deleted: object({ id: text, object: text, deleted: { type: 'boolean', const: true } }),
  ModelReady: object({
    model: text,
    ready: { type: 'boolean' },
    worker_types: { type: 'object', additionalProperties: integer },
  }),
  Ready: object({ ready: { type: 'boolean' } }),
  Health: object({ status: text, message: text }),
  Embeddings: object({
    object: one('list'),
    model: text,
    data: listOf(
      object({
        object: one('embedding'),
        index: integer,
        embedding: { anyOf: [listOf(number), text] },
      }),
    ),
    usage: object({ prompt_tokens: integer, total_tokens: integer }),
  }),
  Model: object({ id: text, object: one('model'), created: integer, owned_by: text }),
  Models: object({ object: one('list'), data: listOf(ref('Model')) }),
  AnthropicModel: object({ type: one('model'), id: text, display_name: text, created_at: text }),
  AnthropicModels: object({
    data: listOf(ref('AnthropicModel')),
    first_id: nullable('string'),
    last_id: nullable('string'),
    has_more: { type: 'boolean' },
  }),
  File: object({
    id: text,
    object: one('file'),
    bytes: integer,
    created_at: integer,
    expires_at: integer,
    filename: text,
    purpose: text,
    status: text,
  }),
  Files: object({ object: one('list'), data: listOf(ref('File')), has_more: { type: 'boolean' } }),
  Batch: object({
    id: text,
    object: one('batch'),
    endpoint: text,
    errors: { anyOf: [object({ data: listOf({ type: 'object' }) }), { type: 'null' }] },
    input_file_id: text,
    completion_window: text,
    status: text,
    output_file_id: nullable('string'),
    error_file_id: nullable('string'),
    created_at: integer,
    expires_at: integer,
    request_counts: object({ total: integer, completed: integer, failed: integer }),
  }),
  Batches: object({
    object: one('list'),
    data: listOf(ref('Batch')),
    has_more: { type: 'boolean' },
  }),
  Ranking: object({
    id: text,
    model: text,
    usage: object({ total_tokens: integer }),
    results: listOf(object({ index: integer, relevance_score: number })),
  }),
  Scores: object({
    id: text,
    object: one('list'),
    model: text,
    data: listOf(object({ index: integer, object: one('score'), score: number })),
    usage: object({ total_tokens: integer }),
  }),
  ClearedCaches: object({
    cleared_workers: listOf({ type: 'object' }),
    failed_workers: listOf({ type: 'object' }),
  }),
  InputTokens: object({ input_tokens: integer }),
  Tokens: object({ count: integer, tokens: listOf(integer) }),
  Prompt: object({ prompt: text }),
  Version: object({ version: text }),
}

/** The reply schema of each route, by method and path. Routes that are not listed reply with their own JSON, or text. */
const REPLIES: Readonly<Record<string, string>> = {
  'post /v1/chat/completions': 'ChatCompletion',
  'post /v1/completions': 'Completion',
  'post /inference/v1/generate': 'GeneratedTokens',
  'post /v1/responses': 'Response',
  'get /v1/responses/{id}': 'Response',
  'post /v1/responses/input_tokens': 'InputTokens',
  'post /v1/messages': 'Message',
  'post /v1/messages/count_tokens': 'InputTokens',
  'post /v1/embeddings': 'Embeddings',
  'get /v1/models': 'Models',
  'get /v1/models/{id}': 'Model',
  'delete /v1/responses/{id}': 'Deleted',
  'get /v1/responses/{id}/input_items': 'Items',
  'post /v1/conversations': 'Conversation',
  'get /v1/conversations/{id}': 'Conversation',
  'post /v1/conversations/{id}': 'Conversation',
  'delete /v1/conversations/{id}': 'Deleted',
  'get /v1/conversations/{id}/items': 'Items',
  'post /v1/conversations/{id}/items': 'Items',
  'get /v1/conversations/{id}/items/{item}': 'Item',
  'delete /v1/conversations/{id}/items/{item}': 'Conversation',
  'delete /v1/files/{id}': 'Deleted',
  'get /v1/models/{id}/ready': 'ModelReady',
  'get /health': 'Health',
  'get /live': 'Health',
  'get /ready': 'Ready',
  'post /v1/files': 'File',
  'get /v1/files': 'Files',
  'get /v1/files/{id}': 'File',
  'post /v1/batches': 'Batch',
  'get /v1/batches': 'Batches',
  'get /v1/batches/{id}': 'Batch',
  'post /v1/batches/{id}/cancel': 'Batch',
  'post /v1/responses/{id}/cancel': 'Response',
  'post /v1/rerank': 'Ranking',
  'post /rerank': 'Ranking',
  'post /v2/rerank': 'Ranking',
  'post /v1/reranking': 'Ranking',
  'post /v1/score': 'Scores',
  'post /score': 'Scores',
  'post /clear_kv_blocks': 'ClearedCaches',
  'post /reset_prefix_cache': 'ClearedCaches',
  'post /flush_cache': 'ClearedCaches',
  'post /tokenize': 'Tokens',
  'post /v1/tokenize': 'Tokens',
  'post /detokenize': 'Prompt',
  'post /v1/detokenize': 'Prompt',
  'get /version': 'Version',
}

const TEXTS: Readonly<Record<string, string>> = {
  'get /metrics': 'text/plain',
  'get /docs': 'text/html',
  'get /v1/files/{id}/content': 'application/octet-stream',
  'get /': 'text/html',
  'get /debug/events': 'text/event-stream',
}
/** Routes that reply "not available" in their own format. */
const NOT_NOW = ['get /health', 'get /ready']
const STREAMS = ['ChatCompletion', 'Completion', 'GeneratedTokens', 'Response', 'Message']

const NEVER_STREAMED = ['post /v1/responses/{id}/cancel']

const HEADERS: Json = {
  'x-request-id': { description: 'The id of the request in logs and metrics', schema: text },
  'x-baton-relaxed': {
    description: 'Keywords of the schema that no grammar can express and that were ignored',
    schema: text,
  },
}

/** Routes that reply in Anthropic's form to a request with `anthropic-version`. */
const IN_BOTH_FORMS: Readonly<Record<string, string>> = {
  'get /v1/models': 'AnthropicModels',
  'get /v1/models/{id}': 'AnthropicModel',
}

/** The `responses` of an operation. */
export function repliesOf(method: string, path: string): OperationEntry['responses'] {
  const route = `${method} ${path}`
  const name = REPLIES[route]
  const type = TEXTS[route]
  const other = IN_BOTH_FORMS[route]
  const schema = name === undefined ? { type: 'object' } : ref(name)
  const json = { schema: other === undefined ? schema : { anyOf: [schema, ref(other)] } }
  const content = {
    ...(type === undefined ? { 'application/json': json } : { [type]: { schema: text } }),
    ...(name !== undefined && STREAMS.includes(name) && !NEVER_STREAMED.includes(route)
      ? { 'text/event-stream': { schema: text } }
      : {}),
  }
  const isAnthropic = path.startsWith('/v1/messages')
  const error =
    other === undefined
      ? ref(isAnthropic ? 'AnthropicError' : 'Error')
      : { anyOf: [ref('Error'), ref('AnthropicError')] }
  return {
    '200': { description: 'OK', headers: HEADERS, content },
    ...(NOT_NOW.includes(route)
      ? { '503': { description: 'Not now, and why', headers: HEADERS, content } }
      : {}),
    default: {
      description: 'Refused or failed; docs/errors.md has every code',
      headers: {
        'x-request-id': HEADERS['x-request-id'],
        'retry-after': { description: 'Seconds after which a retry may succeed', schema: integer },
      },
      content: { 'application/json': { schema: error } },
    },
  }
}
