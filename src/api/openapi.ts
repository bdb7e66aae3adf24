/**
 * `/openapi.json`, made from the same schemas that check the requests.
 */
import { z } from 'zod'
import { anthropicCountSchema, anthropicMessagesSchema } from './anthropic-request.ts'
import { chatRequestSchema } from './chat-request.ts'
import { completionRequestSchema } from './completion-request.ts'
import { embeddingRequestSchema } from './embedding-request.ts'
import { responsesRequestSchema } from './responses-request.ts'
import { busyThresholdSchema, detokenizeSchema, tokenizeSchema } from './service-requests.ts'

interface Operation {
  readonly method: 'get' | 'post'
  readonly path: string
  readonly summary: string
  readonly schema?: z.ZodType
}

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
    path: '/v1/responses',
    summary: 'Response, whole or streamed',
    schema: responsesRequestSchema,
  },
  {
    method: 'post',
    path: '/v1/responses/input_tokens',
    summary: 'Tokens of the input of a response',
    schema: responsesRequestSchema,
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
  { method: 'get', path: '/busy_threshold', summary: 'When workers count as busy' },
  {
    method: 'post',
    path: '/busy_threshold',
    summary: 'Change when workers count as busy',
    schema: busyThresholdSchema,
  },
  {
    method: 'get',
    path: '/debug/requests/{id}',
    summary: 'Why a request ran where it ran',
  },
  { method: 'get', path: '/v1/models', summary: 'Models that are served' },
  { method: 'get', path: '/v1/models/{id}', summary: 'One model' },
  {
    method: 'get',
    path: '/v1/models/{id}/ready',
    summary: 'Whether a model can be served now, and by which kinds of workers',
  },
  { method: 'get', path: '/health', summary: 'State of the service and its workers' },
  { method: 'get', path: '/live', summary: 'The process answers' },
  { method: 'get', path: '/ready', summary: 'A model can be served' },
  { method: 'get', path: '/metrics', summary: 'Metrics in the Prometheus text format' },
  { method: 'get', path: '/openapi.json', summary: 'This document' },
  { method: 'get', path: '/docs', summary: 'The routes as a page' },
]

export function openApiDocument(version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const operation of OPERATIONS) {
    const entry = (paths[operation.path] ??= {})
    entry[operation.method] = {
      summary: operation.summary,
      ...(operation.schema === undefined ? {} : { requestBody: bodyOf(operation.schema) }),
      responses: { '200': { description: 'OK' }, default: { description: 'Error' } },
    }
  }
  return { openapi: '3.1.0', info: { title: 'Baton', version }, paths }
}

function bodyOf(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return { required: true, content: { 'application/json': { schema: json } } }
}
