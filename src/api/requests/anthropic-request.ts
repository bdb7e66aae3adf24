/** `POST /v1/messages` and `/v1/messages/count_tokens`: schema, and the translation to a chat request. */
import { BatonError, isRecord } from '../../base/index.ts'
import { z } from 'zod'
import { parseChatRequest } from './chat-request.ts'
import type { ChatCall } from './chat-request.ts'
import { invalid, STOPS_MAX, stopText } from '../fields/generation-fields.ts'
import { nvextSchema } from '../fields/nvext.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { withFormatField } from '../fields/renamed-fault.ts'
import { checked } from '../fields/schema-check.ts'
import { fieldsSchema } from '../fields/record-schema.ts'

const textBlock = z.looseObject({
  type: z.literal('text', {
    error: ({ input }) => unsupported(input),
  }),
  text: z.string(),
})

const block = z.discriminatedUnion(
  'type',
  [
    textBlock,
    z.looseObject({ type: z.literal('thinking'), thinking: z.string() }),
    z.looseObject({ type: z.literal('redacted_thinking') }),
    z.looseObject({
      type: z.literal('tool_use'),
      id: z.string(),
      name: z.string(),
      input: fieldsSchema,
    }),
    z.looseObject({
      type: z.literal('tool_result'),
      tool_use_id: z.string(),
      content: z
        .union([z.string(), z.array(textBlock)], 'must be a text, or blocks of type "text"')
        .optional(),
      is_error: z.boolean().optional(),
    }),
  ],
  { error: ({ input }) => unsupported(isRecord(input) ? input['type'] : typeof input) },
)

function unsupported(type: unknown): string {
  return typeof type === 'string'
    ? `content block type "${type}" is not supported`
    : 'a content block must have a `type`'
}

type Block = z.infer<typeof block>

const tool = z.looseObject({
  name: z.string().min(1),
  type: z.literal('custom', 'server tools are not supported').nullish(),
  description: z.string().optional(),
  input_schema: fieldsSchema,
  strict: z.boolean().nullish(),
})

const outputFormat = z.looseObject({
  type: z.literal('json_schema'),
  schema: fieldsSchema,
})

const anthropicFields = {
  model: z.string().optional(),
  messages: z
    .array(
      z.looseObject({
        role: z.enum(['user', 'assistant', 'system']),
        content: z.union([z.string(), z.array(block).min(1)]),
      }),
    )
    .min(1, 'field required'),
  system: z
    .union([z.string(), z.array(textBlock)], 'must be a text, or blocks of type "text"')
    .optional(),
  tools: z.array(tool).optional(),
  tool_choice: z
    .looseObject({
      type: z.enum(['auto', 'any', 'tool', 'none']),
      name: z.string().optional(),
      disable_parallel_tool_use: z.boolean().optional(),
    })
    .optional(),
  thinking: z
    .looseObject({
      type: z.enum(['enabled', 'disabled', 'adaptive']),
      budget_tokens: z.int().min(0).optional(),
    })
    .optional(),
  /** Agent metadata and hints without effect here. */
  cache_control: z.unknown().optional(),
  context_management: z.looseObject({}).optional(),
  /** Concern caches, bills and refusals of Anthropic's own service. */
  diagnostics: z.looseObject({}).optional(),
  billing_policy: z.unknown().optional(),
  fallbacks: z.unknown().optional(),
  fallback_credit_token: z.string().optional(),
  betas: z.array(z.string()).optional(),
  output_config: z
    .looseObject({
      effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
      format: outputFormat.nullish(),
    })
    .optional(),
  output_format: outputFormat.optional(),
  mcp_servers: z.array(z.never('MCP servers are not supported')).optional(),
  nvext: nvextSchema.optional(),
} as const

export const anthropicMessagesSchema = z.strictObject({
  ...anthropicFields,
  max_tokens: z.int().min(1, 'must be greater than 0'),
  temperature: z.number().min(0).max(1).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_k: z.int().min(-1).optional(),
  stop_sequences: z.array(stopText).max(STOPS_MAX, `must be at most ${STOPS_MAX} texts`).optional(),
  stream: z.boolean().optional(),
  metadata: fieldsSchema.optional(),
  service_tier: z.string().optional(),
  inference_geo: z.string().optional(),
  speed: z.literal('standard', 'only "standard" is supported').optional(),
})

/** Counting validates the fields that affect the prompt and ignores the others. */
export const anthropicCountSchema = z.looseObject(anthropicFields)

export function parseAnthropicMessages(body: Record<string, unknown>): ChatCall {
  const own = withoutNulls(body)
  refuseThread(own)
  const fields = checked(anthropicMessagesSchema, own)
  const thinking = fields.thinking?.type === 'enabled' ? fields.thinking.budget_tokens : undefined
  const format = fields.output_config?.format ?? fields.output_format
  const isInConfig = fields.output_config?.format != null
  const chat = parseChatRequest({
    ...promptBody(fields),
    ...given({
      max_tokens: fields.max_tokens,
      temperature: fields.temperature,
      top_p: fields.top_p,
      top_k: fields.top_k,
      stop: fields.stop_sequences?.length === 0 ? undefined : fields.stop_sequences,
      stream: fields.stream,
      response_format: responseFormat(format),
    }),
    nvext: {
      ...given({ max_thinking_tokens: thinking }),
      ...(own['nvext'] as object | undefined),
    },
  })
  return withFormatField(chat, isInConfig ? 'output_config.format' : 'output_format')
}

export function parseAnthropicCount(body: Record<string, unknown>): ChatCall {
  return parseChatRequest(promptBody(checked(anthropicCountSchema, withoutNulls(body))))
}

/**
 * Refuses a conversation stored on the server. The wording is recognised by Anthropic's SDK, whose tool runner
 * requests a thread by default and then continues without.
 */
function refuseThread(own: Readonly<Record<string, unknown>>): void {
  if (own['thread'] === undefined) return
  const text = '`thread` is not supported by this server: send the whole conversation'
  throw new BatonError('request.unsupported_parameter', text, {
    data: { param: 'thread', clientDetail: 'thread_unsupported_request' },
  })
}

type PromptFields = Pick<
  z.infer<typeof anthropicMessagesSchema>,
  'model' | 'messages' | 'system' | 'tools' | 'tool_choice' | 'thinking' | 'output_config'
>

function responseFormat(asked: z.infer<typeof outputFormat> | undefined): unknown {
  if (asked === undefined) return undefined
  return { type: 'json_schema', json_schema: { name: 'output', schema: asked.schema } }
}

function promptBody(fields: PromptFields): Record<string, unknown> {
  const { system, tool_choice: choice } = fields
  const messages: Record<string, unknown>[] = []
  if (system !== undefined) {
    const text = typeof system === 'string' ? system : system.map((part) => part.text).join('\n')
    if (text !== '') messages.push({ role: 'system', content: text })
  }
  for (const message of fields.messages) addMessage(messages, message.role, message.content)
  const tools = fields.tools ?? []
  return given({
    model: fields.model,
    messages,
    tools: tools.length === 0 ? undefined : tools.map(chatTool),
    // Without tools a call cannot be forced, which is refused.
    tool_choice: tools.length === 0 && choice?.type === 'auto' ? undefined : toolChoice(choice),
    reasoning_effort: fields.output_config?.effort ?? undefined,
    // A last message of the assistant is the beginning of its answer.
    continue_final_message: messages.at(-1)?.['role'] === 'assistant' ? true : undefined,
    parallel_tool_calls: choice?.disable_parallel_tool_use === true ? false : undefined,
    chat_template_kwargs:
      fields.thinking === undefined
        ? undefined
        : { enable_thinking: fields.thinking.type !== 'disabled' },
  })
}

function chatTool({ name, description, input_schema, strict }: z.infer<typeof tool>): unknown {
  return { type: 'function', function: { name, description, parameters: input_schema, strict } }
}

function toolChoice(choice: PromptFields['tool_choice']): unknown {
  switch (choice?.type) {
    case undefined:
      return undefined
    case 'any':
      return 'required'
    case 'tool':
      if (choice.name === undefined) throw invalid('tool_choice.name', 'field required')
      return { type: 'function', function: { name: choice.name } }
    case 'auto':
    case 'none':
      return choice.type
  }
}

/** Tool results are separate messages in a chat; text and calls of one turn stay together. */
function addMessage(
  messages: Record<string, unknown>[],
  role: string,
  content: string | readonly Block[],
): void {
  if (typeof content === 'string') {
    messages.push({ role, content })
    return
  }
  const texts: string[] = []
  const thoughts: string[] = []
  const calls: unknown[] = []
  for (const entry of content) {
    if (entry.type === 'text') texts.push(entry.text)
    else if (entry.type === 'thinking') thoughts.push(entry.thinking)
    else if (entry.type === 'tool_use') {
      calls.push({
        id: entry.id,
        type: 'function',
        function: { name: entry.name, arguments: entry.input },
      })
    } else if (entry.type === 'tool_result') {
      const result = entry.content ?? ''
      const text = typeof result === 'string' ? result : result.map((p) => p.text).join('\n')
      messages.push({ role: 'tool', tool_call_id: entry.tool_use_id, content: text })
    }
  }
  if (texts.length + calls.length + thoughts.length === 0) return
  messages.push({
    role,
    content: texts.join('\n'),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(thoughts.length === 0 ? {} : { reasoning_content: thoughts.join('\n') }),
  })
}
