/** `/openapi.json`, generated from the schemas that validate the requests. */
import { z } from 'zod'
import type { OpenApi, OperationEntry, RequestBody, Schema } from './openapi-fields.ts'
import { REPLY_SCHEMAS, repliesOf } from './openapi-replies.ts'
import {
  clearCacheSchema,
  roleCommandSchema,
  weightSchema,
  workerCommandSchema,
} from './requests/admin-requests.ts'
import { anthropicCountSchema, anthropicMessagesSchema } from './requests/anthropic-request.ts'
import { batchSchema, FILE_PURPOSES, PAGE_LIMITS } from './requests/batch-request.ts'
import { chatRequestSchema } from './requests/chat-request.ts'
import { completionRequestSchema } from './requests/completion-request.ts'
import { embeddingRequestSchema } from './requests/embedding-request.ts'
import { rerankSchema, scoreSchema } from './requests/rerank-request.ts'
import { tokenRequestSchema } from './requests/token-request.ts'
import {
  conversationSchema,
  itemsSchema,
  statefulResponsesSchema,
} from './requests/responses-request.ts'
import {
  busyThresholdSchema,
  detokenizeSchema,
  tokenizeSchema,
} from './requests/service-requests.ts'

interface Operation {
  readonly method: 'get' | 'post' | 'delete'
  readonly path: string
  readonly summary: string
  readonly schema?: z.ZodType
  /** The body may be omitted. */
  readonly isOptional?: boolean
  /** The body is a form. */
  readonly form?: Readonly<Record<string, unknown>>
  /** Query parameters. */
  readonly query?: Readonly<Record<string, Schema>>
}

/** Query parameters of a list, with the maximum page size. */
const pageOf = (max: number): Record<string, Schema> => ({
  limit: { type: 'integer', minimum: 1, maximum: max },
  after: { type: 'string' },
  order: { type: 'string', enum: ['asc', 'desc'] },
})
const PURPOSE = { type: 'string', enum: FILE_PURPOSES }

const COMMANDS = {
  drain: 'Drain a worker: running requests finish, no new ones are sent',
  resume: 'Resume a drained worker',
  restart: 'Replace a worker by a new process',
} as const

const OPERATIONS: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/chat/completions',
    summary: 'Chat completion, whole or streamed',
    schema: chatRequestSchema,
  },
  {
    method: 'post',
    path: '/v1/completions',
    summary: 'Text completion, whole or streamed',
    schema: completionRequestSchema,
  },
  {
    method: 'post',
    path: '/inference/v1/generate',
    summary: 'Token ids in, token ids out, whole or streamed',
    schema: tokenRequestSchema,
  },
  {
    method: 'post',
    path: '/v1/responses',
    summary: 'Response, whole or streamed',
    schema: statefulResponsesSchema,
  },
  {
    method: 'post',
    path: '/v1/responses/input_tokens',
    summary: 'Tokens of the input of a response',
    schema: statefulResponsesSchema,
  },
  {
    method: 'get',
    path: '/v1/responses/{id}',
    summary: 'A stored response or the state of a background response, whole or streamed',
    query: {
      stream: { type: 'boolean' },
      starting_after: { type: 'integer', minimum: 0 },
    },
  },
  {
    method: 'get',
    path: '/v1/responses/{id}/input_items',
    summary: 'Input items of a stored response',
    query: pageOf(PAGE_LIMITS.items.max),
  },
  { method: 'delete', path: '/v1/responses/{id}', summary: 'Delete a stored response' },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    summary: 'Cancel a background response',
  },
  {
    method: 'post',
    path: '/v1/conversations',
    summary: 'Begin a conversation',
    schema: conversationSchema,
  },
  { method: 'get', path: '/v1/conversations/{id}', summary: 'A conversation' },
  {
    method: 'get',
    path: '/v1/conversations/{id}/items',
    summary: 'Items of a conversation',
    query: pageOf(PAGE_LIMITS.items.max),
  },
  {
    method: 'post',
    path: '/v1/conversations/{id}',
    summary: 'Set the metadata of a conversation',
    schema: conversationSchema,
  },
  {
    method: 'post',
    path: '/v1/conversations/{id}/items',
    summary: 'Add items to a conversation',
    schema: itemsSchema,
  },
  {
    method: 'delete',
    path: '/v1/conversations/{id}',
    summary: 'Forget a conversation',
  },
  {
    method: 'get',
    path: '/v1/conversations/{id}/items/{item}',
    summary: 'An item of a conversation',
  },
  {
    method: 'delete',
    path: '/v1/conversations/{id}/items/{item}',
    summary: 'Delete an item of a conversation',
  },
  {
    method: 'post',
    path: '/v1/messages',
    summary: 'Anthropic message, whole or streamed',
    schema: anthropicMessagesSchema,
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    summary: 'Tokens of an Anthropic message',
    schema: anthropicCountSchema,
  },
  {
    method: 'post',
    path: '/v1/embeddings',
    summary: 'Embeddings, where the engine has them',
    schema: embeddingRequestSchema,
  },
  ...['/v1/rerank', '/rerank', '/v2/rerank', '/v1/reranking'].map((path) => ({
    method: 'post' as const,
    path,
    summary: 'Rank documents by their similarity to a query',
    schema: rerankSchema,
  })),
  ...['/v1/score', '/score'].map((path) => ({
    method: 'post' as const,
    path,
    summary: 'Similarity of pairs of texts',
    schema: scoreSchema,
  })),
  {
    method: 'post',
    path: '/v1/files',
    summary: 'Upload a file',
    form: {
      type: 'object',
      properties: {
        file: { type: 'string', contentMediaType: 'application/octet-stream' },
        purpose: PURPOSE,
        'expires_after[anchor]': { type: 'string', const: 'created_at' },
        'expires_after[seconds]': { type: 'integer' },
      },
      required: ['file', 'purpose'],
    },
  },
  {
    method: 'get',
    path: '/v1/files',
    summary: 'Files',
    query: { ...pageOf(PAGE_LIMITS.files.max), purpose: { type: 'string' } },
  },
  { method: 'get', path: '/v1/files/{id}', summary: 'A file' },
  { method: 'get', path: '/v1/files/{id}/content', summary: 'What is in a file' },
  { method: 'delete', path: '/v1/files/{id}', summary: 'Delete a file' },
  { method: 'post', path: '/v1/batches', summary: 'Begin a batch', schema: batchSchema },
  {
    method: 'get',
    path: '/v1/batches',
    summary: 'Batches',
    query: pageOf(PAGE_LIMITS.batches.max),
  },
  { method: 'get', path: '/v1/batches/{id}', summary: 'A batch' },
  { method: 'post', path: '/v1/batches/{id}/cancel', summary: 'Cancel a batch' },
  ...['/tokenize', '/v1/tokenize'].map((path) => ({
    method: 'post' as const,
    path,
    summary: 'Text or messages to token ids',
    schema: tokenizeSchema,
  })),
  ...['/detokenize', '/v1/detokenize'].map((path) => ({
    method: 'post' as const,
    path,
    summary: 'Token ids to text',
    schema: detokenizeSchema,
  })),
  { method: 'get', path: '/busy_threshold', summary: 'Thresholds at which workers count as busy' },
  {
    method: 'post',
    path: '/busy_threshold',
    summary: 'Set the thresholds at which workers count as busy',
    schema: busyThresholdSchema,
  },
  { method: 'get', path: '/admin/workers', summary: 'Workers and their status' },
  { method: 'get', path: '/admin/workers/{id}', summary: 'Status of one worker' },
  ...(['drain', 'resume', 'restart'] as const).map((command) => ({
    method: 'post' as const,
    path: `/admin/${command}`,
    summary: COMMANDS[command],
    schema: workerCommandSchema,
  })),
  {
    method: 'post',
    path: '/admin/role',
    summary: 'Change the role of a worker',
    schema: roleCommandSchema,
  },
  ...['/clear_kv_blocks', '/reset_prefix_cache', '/flush_cache'].map((path) => ({
    method: 'post' as const,
    path,
    summary: 'Clear the KV cache of the workers, except blocks in use',
    schema: clearCacheSchema,
    isOptional: true,
  })),
  { method: 'get', path: '/admin/weights', summary: 'Versions of the models and their weights' },
  {
    method: 'post',
    path: '/admin/weights',
    summary: 'Set the share of requests that a model version gets',
    schema: weightSchema,
  },
  {
    method: 'get',
    path: '/debug/requests/{id}',
    summary: 'Routing decision and phases of a request',
  },
  {
    method: 'get',
    path: '/admin/keys',
    summary: 'Valid keys with their limits, never the keys themselves',
  },
  {
    method: 'get',
    path: '/debug/requests',
    summary: 'The last requests with their phases',
    query: { limit: { type: 'integer', minimum: 1, maximum: 100 } },
  },
  { method: 'get', path: '/debug/fleet', summary: 'Models, workers, load and warnings' },
  {
    method: 'get',
    path: '/debug/events',
    summary: 'Fleet and requests as server-sent events while they change',
  },
  { method: 'get', path: '/', summary: 'The console, a web page' },
  { method: 'get', path: '/v1/models', summary: 'Models that are served' },
  { method: 'get', path: '/v1/models/{id}', summary: 'One model' },
  {
    method: 'get',
    path: '/v1/models/{id}/ready',
    summary: 'Whether a model can be served now, and by which kinds of workers',
  },
  { method: 'get', path: '/health', summary: 'State of the service and its workers' },
  { method: 'get', path: '/version', summary: 'The version of the service' },
  { method: 'get', path: '/live', summary: 'The process answers' },
  { method: 'get', path: '/ready', summary: 'A model can be served' },
  { method: 'get', path: '/metrics', summary: 'Metrics in the Prometheus text format' },
  { method: 'get', path: '/openapi.json', summary: 'This document' },
  { method: 'get', path: '/docs', summary: 'The operations and their fields as a page' },
]

export function openApiDocument(version: string): OpenApi {
  const paths: Record<string, Record<string, OperationEntry>> = {}
  for (const operation of OPERATIONS) {
    const entry = (paths[operation.path] ??= {})
    entry[operation.method] = {
      operationId: operationId(operation),
      summary: operation.summary,
      ...parametersOf(operation),
      ...(operation.schema === undefined
        ? {}
        : { requestBody: bodyOf(operation.schema, operation.isOptional !== true) }),
      ...(operation.form === undefined ? {} : { requestBody: formOf(operation.form) }),
      responses: repliesOf(operation.method, operation.path),
    }
  }
  const info = { title: 'Baton', version }
  return { openapi: '3.1.0', info, paths, components: { schemas: REPLY_SCHEMAS } }
}

/** For example `post_v1_chat_completions`: the operation's name in a generated client. */
function operationId({ method, path }: Operation): string {
  return [method, ...path.split(/\W+/)].filter((part) => part !== '').join('_')
}

function parametersOf({ path, query = {} }: Operation): Pick<OperationEntry, 'parameters'> {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const inQuery = Object.entries(query).map(([name, schema]) => ({ name, in: 'query', schema }))
  const parameters = [...inPath, ...inQuery]
  return parameters.length === 0 ? {} : { parameters }
}

function formOf(schema: Schema): RequestBody {
  return { required: true, content: { 'multipart/form-data': { schema } } }
}

function bodyOf(schema: z.ZodType, required: boolean): RequestBody {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return { required, content: { 'application/json': { schema: json } } }
}
