/**
 * `POST /v1/responses`: schema, and its translation into a chat request. State on the server is not kept, so what
 * needs it is refused with 501.
 */
import { z } from 'zod'
import { BatonError } from '../base/index.ts'
import { parseChatRequest } from './chat-request.ts'
import type { ChatCall } from './chat-request.ts'
import { unsupported } from './generation-fields.ts'
import { nvextSchema } from './nvext.ts'
import { given, withoutNulls } from './plain-fields.ts'
import { checked } from './schema-check.ts'

const part = z.looseObject({ type: z.string(), text: z.string().optional() })
const content = z.union([z.string(), z.array(part)])

const item = z.union([
  z.looseObject({
    type: z.literal('function_call'),
    call_id: z.string(),
    name: z.string(),
    arguments: z.string(),
  }),
  z.looseObject({
    type: z.literal('function_call_output'),
    call_id: z.string(),
    output: content,
  }),
  z.looseObject({ type: z.literal('reasoning') }),
  z.looseObject({
    type: z.literal('message').optional(),
    role: z.enum(['system', 'developer', 'user', 'assistant']),
    content,
  }),
])

const tool = z.looseObject({
  type: z.literal('function', 'only tools of type "function" are supported'),
  name: z.string().min(1),
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
})

const format = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    name: z.string(),
    schema: z.unknown(),
    description: z.string().nullish(),
    strict: z.boolean().nullish(),
  }),
])

export const responsesRequestSchema = z.strictObject({
  model: z.string().optional(),
  input: z.union([z.string(), z.array(item).min(1)], 'must be a text, or at least one item'),
  instructions: z.string().optional(),
  max_output_tokens: z.int().min(1).optional(),
  temperature: z.number().min(0).max(2).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_logprobs: z.literal(0, 'log-probabilities are not supported by this endpoint').optional(),
  stream: z.boolean().optional(),
  stream_options: z.looseObject({}).optional(),
  tools: z.array(tool).optional(),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({ type: z.literal('function'), name: z.string() }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  text: z.strictObject({ format: format.optional(), verbosity: z.string().optional() }).optional(),
  reasoning: z
    .strictObject({ effort: z.string().nullish(), summary: z.string().nullish() })
    .optional(),
  truncation: z.literal('disabled', 'only "disabled" is supported').optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  user: z.string().optional(),
  store: z.boolean().optional(),
  service_tier: z.string().optional(),
  safety_identifier: z.string().optional(),
  prompt_cache_key: z.string().optional(),
  prompt_cache_retention: z.string().optional(),
  include: z.array(z.string()).optional(),
  nvext: nvextSchema.optional(),
})

type ResponsesFields = z.infer<typeof responsesRequestSchema>

interface ResponsesCall {
  readonly chat: ChatCall
  /** What the response object repeats. */
  readonly echo: Readonly<Record<string, unknown>>
}

const NEEDS_STATE = ['previous_response_id', 'conversation', 'prompt', 'max_tool_calls']

export function parseResponsesRequest(body: Record<string, unknown>): ResponsesCall {
  const own = withoutNulls(body)
  refuseState(own)
  const fields = checked(responsesRequestSchema, own)
  if (fields.include?.some((name) => name !== 'reasoning.encrypted_content') === true) {
    throw unsupported('include')
  }
  const chat = parseChatRequest(chatBody(fields, own['nvext']))
  return { chat: withOwnName(chat), echo: echoOf(fields) }
}

/** What is `response_format` elsewhere has another name here, which a refusal tells. */
function withOwnName(chat: ChatCall): ChatCall {
  const { guided } = chat.sampling
  if (guided?.field !== 'response_format') return chat
  return { ...chat, sampling: { ...chat.sampling, guided: { ...guided, field: 'text.format' } } }
}

function refuseState(body: Record<string, unknown>): void {
  const name = body['background'] === true ? 'background' : NEEDS_STATE.find((key) => key in body)
  delete body['background']
  if (name === undefined) return
  throw new BatonError(
    'runtime.not_implemented',
    `\`${name}\` needs state on the server, which is not kept`,
    { data: { param: name } },
  )
}

function chatBody(fields: ResponsesFields, nvext: unknown): Record<string, unknown> {
  const choice = fields.tool_choice
  return given({
    model: fields.model,
    messages: messagesOf(fields),
    max_completion_tokens: fields.max_output_tokens,
    temperature: fields.temperature,
    top_p: fields.top_p,
    stream: fields.stream,
    tools: fields.tools?.map(({ name, description, parameters, strict }) => ({
      type: 'function',
      function: { name, description, parameters, strict },
    })),
    tool_choice:
      typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : choice,
    parallel_tool_calls: fields.parallel_tool_calls,
    response_format: responseFormat(fields.text?.format),
    reasoning_effort: fields.reasoning?.effort ?? undefined,
    nvext,
  })
}

function responseFormat(asked: z.infer<typeof format> | undefined): unknown {
  if (asked?.type !== 'json_schema') return asked
  return {
    type: 'json_schema',
    json_schema: given({ name: asked.name, schema: asked.schema, strict: asked.strict }),
  }
}

function messagesOf(fields: ResponsesFields): unknown[] {
  const messages: Record<string, unknown>[] = []
  if (fields.instructions !== undefined) {
    messages.push({ role: 'system', content: fields.instructions })
  }
  if (typeof fields.input === 'string') {
    messages.push({ role: 'user', content: fields.input })
    return messages
  }
  for (const entry of fields.input) {
    if (entry.type === 'reasoning') continue
    if (entry.type === 'function_call') addCall(messages, entry)
    else if (entry.type === 'function_call_output') {
      messages.push({
        role: 'tool',
        tool_call_id: entry['call_id'],
        content: partsOf(entry['output']),
      })
    } else messages.push({ role: entry['role'], content: partsOf(entry['content']) })
  }
  return messages
}

/** Calls that follow each other belong to one turn of the assistant. */
function addCall(messages: Record<string, unknown>[], entry: Record<string, unknown>): void {
  const call = {
    id: entry['call_id'],
    type: 'function',
    function: { name: entry['name'], arguments: entry['arguments'] },
  }
  const last = messages.at(-1)
  if (last?.['role'] === 'assistant') {
    const calls = Array.isArray(last['tool_calls']) ? (last['tool_calls'] as unknown[]) : []
    last['tool_calls'] = [...calls, call]
  } else messages.push({ role: 'assistant', content: '', tool_calls: [call] })
}

function partsOf(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return (value as { type: string; text?: string }[]).map((entry) =>
    entry.type === 'output_text' ? { type: 'text', text: entry.text } : entry,
  )
}

function echoOf(fields: ResponsesFields): Record<string, unknown> {
  return {
    instructions: fields.instructions ?? null,
    max_output_tokens: fields.max_output_tokens ?? null,
    metadata: fields.metadata ?? {},
    parallel_tool_calls: fields.parallel_tool_calls ?? true,
    previous_response_id: null,
    reasoning: { effort: fields.reasoning?.effort ?? null, summary: null },
    service_tier: fields.service_tier ?? 'auto',
    store: false,
    temperature: fields.temperature ?? 1,
    text: { format: fields.text?.format ?? { type: 'text' } },
    tool_choice: fields.tool_choice ?? 'auto',
    tools: fields.tools ?? [],
    top_p: fields.top_p ?? 1,
    truncation: 'disabled',
    ...given({
      user: fields.user,
      safety_identifier: fields.safety_identifier,
      prompt_cache_key: fields.prompt_cache_key,
      prompt_cache_retention: fields.prompt_cache_retention,
    }),
  }
}
