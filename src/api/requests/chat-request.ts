/** `POST /v1/chat/completions`: schema, and the call as a value. */
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import { chatMessage, messageSchema } from '../fields/chat-message.ts'
import type { ChatMessage } from '../fields/chat-message.ts'
import { toolChoiceSchema, toolsOf, toolsSchema } from '../fields/chat-tools.ts'
import type { OfferedTools } from '../fields/chat-tools.ts'
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
import { RenderedJson } from '../fields/rendered-json.ts'
import { checked } from '../fields/schema-check.ts'
import { isPlainChat } from './plain-chat.ts'
import { fieldsSchema } from '../fields/record-schema.ts'

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
  reasoning_effort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).optional(),
  /** A hint for caches of other servers; agents send it here, in messages and in parts. */
  cache_control: z.unknown().optional(),
  modalities: z.array(z.literal('text', 'only "text" is supported')).optional(),
  chat_template_kwargs: fieldsSchema.optional(),
  chat_template_args: fieldsSchema.optional(),
  add_generation_prompt: z.boolean().optional(),
  continue_final_message: z.boolean().optional(),
  /** A hint without effect on the models served here. */
  verbosity: z.enum(['low', 'medium', 'high']).optional(),
  /** Predicted output: a performance hint without effect on the result. */
  prediction: z
    .looseObject({
      type: z.literal('content'),
      content: z.union([z.string(), z.array(z.looseObject({ type: z.literal('text') }))]),
    })
    .optional(),
})

export interface ChatCall extends GenerationOptions, Omit<OfferedTools, 'isStrict'> {
  readonly messages: readonly ChatMessage[]
  readonly parallelToolCalls: boolean
  /** Variables of the chat template besides messages and tools. */
  readonly templateArguments: Readonly<Record<string, unknown>>
  /** False: the prompt ends after the last message, without the start of an assistant turn. */
  readonly addGenerationPrompt: boolean
  /** The last message is the assistant's, and the model continues it. */
  readonly continueFinalMessage: boolean
}

export function parseChatRequest(body: Record<string, unknown>): ChatCall {
  const own = stripNoOps(withoutNulls(stripTransferFields(body)), {
    best_of: 1,
    echo: false,
    // The template has already written them.
    add_special_tokens: false,
  })
  refuseDeprecated(own)
  const fields = isPlainChat(own)
    ? (own as unknown as z.infer<typeof chatRequestSchema>)
    : checked(chatRequestSchema, own)
  const { isStrict, ...offered } = toolsOf(fields)
  const logprobs = fields.logprobs === true ? (fields.top_logprobs ?? 0) : undefined
  if ((fields.top_logprobs ?? 0) > 0 && fields.logprobs !== true) {
    throw invalid('top_logprobs', 'needs `logprobs: true`')
  }
  const options = generationOptions(fields, {
    maxTokens: fields.max_completion_tokens ?? fields.max_tokens,
    output: given({ logprobs }),
  })
  const continues = fields.continue_final_message ?? hasPrefix(fields.messages)
  refuseContinuing(fields)
  const rendered = new RenderedJson()
  rendered.spend(fields.messages.length, 'messages')
  const messages = fields.messages.map((message, index) => chatMessage(message, index, rendered))
  const { chat_template_args: args, chat_template_kwargs: kwargs } = fields
  if (offered.tools.length > 0) rendered.add(offered.tools, 'tools')
  if (args !== undefined) rendered.add(args, 'chat_template_args')
  if (kwargs !== undefined) rendered.add(kwargs, 'chat_template_kwargs')
  // Own members first: members after a spread cost a call into the runtime each.
  return {
    messages,
    ...offered,
    parallelToolCalls: fields.parallel_tool_calls ?? true,
    templateArguments: {
      ...given({ reasoning_effort: fields.reasoning_effort }),
      ...args,
      ...kwargs,
    },
    addGenerationPrompt: fields.add_generation_prompt ?? true,
    continueFinalMessage: continues,
    ...options,
    sampling: samplingWithTools(options, offered, isStrict),
    ...(fields.prompt_logprobs === undefined ? {} : { showsPromptLogprobs: true }),
  }
}

function refuseContinuing(fields: z.infer<typeof chatRequestSchema>): void {
  if (fields.continue_final_message !== true) return
  if (fields.add_generation_prompt === true) {
    throw invalid('continue_final_message', 'cannot be combined with `add_generation_prompt: true`')
  }
  if (fields.messages.at(-1)?.role !== 'assistant') {
    throw invalid('continue_final_message', 'requires that the last message is from the assistant')
  }
}

/** Mistral and DeepSeek mark a message to be continued with the key `prefix`. */
function hasPrefix(messages: z.infer<typeof chatRequestSchema>['messages']): boolean {
  const at = messages.findIndex((message) => message['prefix'] === true)
  if (at < 0) return false
  if (at === messages.length - 1 && messages[at]?.role === 'assistant') return true
  throw invalid(
    `messages[${at}].prefix`,
    'is supported only for the last message, from the assistant',
  )
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

/** A forced tool call becomes a JSON schema constraint; a response format applies to text answers. */
function samplingWithTools(
  options: GenerationOptions,
  { tools, toolChoice: choice }: Omit<OfferedTools, 'isStrict'>,
  isStrict: boolean,
): GenerationOptions['sampling'] {
  if (choice === 'none' || choice === 'auto') return options.sampling
  const schema = forcedCallSchema(
    choice === 'required' ? tools : tools.filter((tool) => tool.function.name === choice.name),
  )
  const guided = { kind: 'json-schema', schema, field: 'tools', isRelaxed: !isStrict } as const
  return { ...options.sampling, guided }
}
