/**
 * `POST /v1/chat/completions`: schema, and the call as a value.
 */
import { z } from 'zod'
import { BatonError } from '../base/index.ts'
import {
  chatMessage,
  chatTool,
  messageSchema,
  toolChoiceSchema,
  toolsSchema,
} from './chat-message.ts'
import type { ChatMessage, ChatTool } from './chat-message.ts'
import { forcedCallSchema } from './forced-call-schema.ts'
import {
  generationFields,
  generationOptions,
  invalid,
  stripTransferFields,
  unsupported,
} from './generation-fields.ts'
import type { GenerationOptions } from './generation-fields.ts'
import { given, withoutNulls } from './plain-fields.ts'
import { checked } from './schema-check.ts'

const TOP_LOGPROBS_MAX = 20

export const chatRequestSchema = z.strictObject({
  ...generationFields,
  messages: z.array(messageSchema).min(1, 'must hold at least one message'),
  max_completion_tokens: z.int().min(0).max(0xffffffff).optional(),
  logprobs: z.boolean().optional(),
  top_logprobs: z.int().min(0).max(TOP_LOGPROBS_MAX).optional(),
  tools: toolsSchema.optional(),
  tool_choice: toolChoiceSchema.optional(),
  parallel_tool_calls: z.boolean().optional(),
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh']).optional(),
  modalities: z.array(z.literal('text')).optional(),
  chat_template_kwargs: z.record(z.string(), z.unknown()).optional(),
  chat_template_args: z.record(z.string(), z.unknown()).optional(),
})

type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string }

export interface ChatCall extends GenerationOptions {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ChatTool[]
  readonly toolChoice: ToolChoice
  readonly parallelToolCalls: boolean
  /** Variables of the chat template beyond messages and tools. */
  readonly templateArguments: Readonly<Record<string, unknown>>
}

export function parseChatRequest(body: Record<string, unknown>): ChatCall {
  const own = withoutNulls(stripTransferFields(body))
  refuseDeprecated(own)
  const fields = checked(chatRequestSchema, own)
  const toolChoice = toolChoiceOf(fields)
  const logprobs = fields.logprobs === true ? (fields.top_logprobs ?? 0) : undefined
  if (fields.top_logprobs !== undefined && fields.logprobs !== true) {
    throw invalid('top_logprobs', 'needs `logprobs: true`')
  }
  const options = generationOptions(fields, {
    maxTokens: fields.max_completion_tokens ?? fields.max_tokens,
    output: given({ logprobs }),
  })
  const tools = (fields.tools ?? []).map(chatTool)
  return {
    ...options,
    sampling: samplingWithTools(options, tools, toolChoice),
    messages: fields.messages.map(chatMessage),
    tools,
    toolChoice,
    parallelToolCalls: fields.parallel_tool_calls ?? true,
    templateArguments: {
      ...given({ reasoning_effort: fields.reasoning_effort }),
      ...fields.chat_template_args,
      ...fields.chat_template_kwargs,
    },
  }
}

function refuseDeprecated(body: Record<string, unknown>): void {
  for (const name of ['function_call', 'functions']) {
    if (!(name in body)) continue
    throw new BatonError(
      'runtime.not_implemented',
      `\`${name}\` is deprecated: use \`tools\` and \`tool_choice\``,
      { data: { param: name } },
    )
  }
}

function toolChoiceOf(fields: z.infer<typeof chatRequestSchema>): ToolChoice {
  const names = (fields.tools ?? []).map((tool) => tool.function.name)
  const choice = fields.tool_choice
  if (choice === undefined) return names.length > 0 ? 'auto' : 'none'
  if (typeof choice !== 'string') {
    const { name } = choice.function
    if (!names.includes(name)) throw invalid('tool_choice', `no tool is called "${name}"`)
    return { name }
  }
  if (choice === 'required' && names.length === 0) {
    throw invalid('tool_choice', '"required" needs `tools`')
  }
  return choice
}

/** A forced tool call is a JSON schema that the engine holds the output to. */
function samplingWithTools(
  options: GenerationOptions,
  tools: readonly ChatTool[],
  choice: ToolChoice,
): GenerationOptions['sampling'] {
  if (choice === 'none' || choice === 'auto') return options.sampling
  if (options.sampling.guided !== undefined) {
    throw unsupported('tool_choice', 'cannot be forced together with a response format')
  }
  const schema = forcedCallSchema(
    choice === 'required' ? tools : tools.filter((tool) => tool.function.name === choice.name),
  )
  return { ...options.sampling, guided: { kind: 'json-schema', schema, field: 'tools' } }
}
