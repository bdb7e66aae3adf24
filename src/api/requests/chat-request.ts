/**
 * `POST /v1/chat/completions`: schema, and the call as a value.
 */
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import {
  chatMessage,
  chatTool,
  messageSchema,
  toolChoiceSchema,
  toolsSchema,
} from '../fields/chat-message.ts'
import type { ChatMessage, ChatTool } from '../fields/chat-message.ts'
import { forcedCallSchema } from '../fields/forced-call-schema.ts'
import {
  generationFields,
  generationOptions,
  invalid,
  stripNoOps,
  stripTransferFields,
} from '../fields/generation-fields.ts'
import type { GenerationOptions } from '../fields/generation-fields.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'
import { isPlainChat } from './plain-chat.ts'

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
  add_generation_prompt: z.boolean().optional(),
  continue_final_message: z.boolean().optional(),
  /** A hint that changes no result of the models served here. */
  verbosity: z.enum(['low', 'medium', 'high']).optional(),
})

type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string }

export interface ChatCall extends GenerationOptions {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ChatTool[]
  readonly toolChoice: ToolChoice
  readonly parallelToolCalls: boolean
  /** Variables of the chat template beyond messages and tools. */
  readonly templateArguments: Readonly<Record<string, unknown>>
  /** False: the prompt ends behind the last message, no turn of the assistant is begun. */
  readonly addGenerationPrompt: boolean
  /** The last message is the assistant's and is gone on with. */
  readonly continueFinalMessage: boolean
}

export function parseChatRequest(body: Record<string, unknown>): ChatCall {
  const own = stripNoOps(withoutNulls(stripTransferFields(body)), { best_of: 1 })
  refuseDeprecated(own)
  const fields = isPlainChat(own)
    ? (own as unknown as z.infer<typeof chatRequestSchema>)
    : checked(chatRequestSchema, own)
  const toolChoice = toolChoiceOf(fields)
  const logprobs = fields.logprobs === true ? (fields.top_logprobs ?? 0) : undefined
  if (fields.top_logprobs !== undefined && fields.logprobs !== true) {
    throw invalid('top_logprobs', 'needs `logprobs: true`')
  }
  const options = generationOptions(fields, {
    maxTokens: fields.max_completion_tokens ?? fields.max_tokens,
    output: given({ logprobs }),
  })
  const offered = allowedTools(fields)
  const tools = offered.map(chatTool)
  const isStrict = offered.some((tool) => tool.function.strict === true)
  refuseContinuing(fields)
  // Own members first: those behind a spread, if it has not got them, cost a call into the runtime each.
  return {
    messages: fields.messages.map(chatMessage),
    tools,
    toolChoice,
    parallelToolCalls: fields.parallel_tool_calls ?? true,
    templateArguments: {
      ...given({ reasoning_effort: fields.reasoning_effort }),
      ...fields.chat_template_args,
      ...fields.chat_template_kwargs,
    },
    addGenerationPrompt: fields.add_generation_prompt ?? true,
    continueFinalMessage: fields.continue_final_message ?? false,
    ...options,
    sampling: samplingWithTools(options, tools, toolChoice, isStrict),
    ...(fields.prompt_logprobs === undefined ? {} : { showsPromptLogprobs: true }),
  }
}

function refuseContinuing(fields: z.infer<typeof chatRequestSchema>): void {
  if (fields.continue_final_message !== true) return
  if (fields.add_generation_prompt === true) {
    throw invalid('continue_final_message', 'contradicts `add_generation_prompt: true`')
  }
  if (fields.messages.at(-1)?.role !== 'assistant') {
    throw invalid('continue_final_message', 'needs a last message of the assistant')
  }
}

/** `allowed_tools` narrows the tools without changing the list that the client sends each time. */
function allowedTools(fields: z.infer<typeof chatRequestSchema>): z.infer<typeof toolsSchema> {
  const { tools = [], tool_choice: choice } = fields
  if (typeof choice !== 'object' || choice.type !== 'allowed_tools') return tools
  const names = choice.allowed_tools.tools.map((tool) => tool.function.name)
  const missing = names.find((name) => !tools.some((tool) => tool.function.name === name))
  if (missing !== undefined) throw invalid('tool_choice', `no tool is called "${missing}"`)
  return tools.filter((tool) => names.includes(tool.function.name))
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
  if (typeof choice === 'object' && choice.type === 'allowed_tools')
    return choice.allowed_tools.mode
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

/** A forced tool call is a JSON schema that the engine holds the output to; a response format is for answers in text. */
function samplingWithTools(
  options: GenerationOptions,
  tools: readonly ChatTool[],
  choice: ToolChoice,
  isStrict: boolean,
): GenerationOptions['sampling'] {
  if (choice === 'none' || choice === 'auto') return options.sampling
  const schema = forcedCallSchema(
    choice === 'required' ? tools : tools.filter((tool) => tool.function.name === choice.name),
  )
  const guided = { kind: 'json-schema', schema, field: 'tools', isRelaxed: !isStrict } as const
  return { ...options.sampling, guided }
}
