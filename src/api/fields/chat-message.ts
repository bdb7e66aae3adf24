/** Validates chat messages and joins text parts to one string, because templates expect plain strings. */
import { z } from 'zod'
import { BatonError } from '../../base/index.ts'
import { FUNCTION_NAME_MAX } from './chat-tools.ts'
import { fieldsSchema } from './record-schema.ts'
import type { RenderedJson } from './rendered-json.ts'

const part = z.looseObject({ type: z.string() })
const content = z.union([z.string(), z.array(part)], 'must be a text, or text parts').nullish()

const functionCall = z.looseObject({
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.looseObject({
    name: z.string().min(1).max(FUNCTION_NAME_MAX),
    arguments: z.union([z.string(), fieldsSchema]).optional(),
  }),
})

const customCall = z.looseObject({
  id: z.string().optional(),
  type: z.literal('custom'),
  custom: z.looseObject({
    name: z.string().min(1).max(FUNCTION_NAME_MAX),
    input: z.string(),
  }),
})

const toolCall = z.discriminatedUnion('type', [functionCall, customCall])

export const messageSchema = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
  content,
  name: z.string().nullish(),
  tool_calls: z.array(toolCall).nullish(),
  tool_call_id: z.string().nullish(),
  reasoning_content: z.string().nullish(),
})

interface ToolCallMessage {
  readonly id?: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: unknown }
}

export interface ChatMessage {
  readonly role: string
  readonly content: string
  readonly name?: string
  readonly tool_calls?: readonly ToolCallMessage[]
  readonly tool_call_id?: string
  readonly reasoning_content?: string
}

export function chatMessage(
  message: z.infer<typeof messageSchema>,
  index: number,
  rendered: RenderedJson,
): ChatMessage {
  const { name, tool_call_id, reasoning } = message
  // vLLM calls it `reasoning`; in other APIs that field means something else.
  const thought = message.reasoning_content ?? (typeof reasoning === 'string' ? reasoning : null)
  const calls = message.tool_calls?.map((call) => toolCallMessage(call, rendered))
  return {
    role: message.role,
    content: plainContent(message, `messages[${index}].content`),
    ...(name == null ? {} : { name }),
    ...(calls === undefined || calls.length === 0 ? {} : { tool_calls: calls }),
    ...(tool_call_id == null ? {} : { tool_call_id }),
    ...(thought === null ? {} : { reasoning_content: thought }),
  }
}

/** Templates print arguments as JSON, so arguments given as JSON text of an object are parsed. */
function toolCallMessage(call: z.infer<typeof toolCall>, rendered: RenderedJson): ToolCallMessage {
  rendered.spend(1, 'messages')
  const id = call.id === undefined ? {} : { id: call.id }
  if (call.type === 'custom') {
    const { name, input } = call.custom
    return { ...id, type: 'function', function: { name, arguments: { input } } }
  }
  const { name, arguments: given = {} } = call.function
  return { ...id, type: 'function', function: { name, arguments: argumentsOf(given, rendered) } }
}

function argumentsOf(given: string | Record<string, unknown>, rendered: RenderedJson): unknown {
  if (typeof given === 'string') return rendered.objectIn(given, 'messages')
  rendered.add(given, 'messages')
  return given
}

/** Roles whose messages must have content; an assistant may only have called tools, and a tool may have no result. */
const SPEAKERS: readonly string[] = ['system', 'developer', 'user']

function plainContent(message: z.infer<typeof messageSchema>, path: string): string {
  const { content: value, role } = message
  if (value == null) {
    if (!SPEAKERS.includes(role)) return ''
    throw new BatonError('request.invalid_argument', `\`${path}\`: is missing`, {
      data: { param: path },
    })
  }
  if (typeof value === 'string') return value
  return value
    .map((entry, index) => {
      if (
        (entry.type === 'text' || entry.type === 'input_text') &&
        typeof entry['text'] === 'string'
      ) {
        return entry['text']
      }
      if (entry.type === 'refusal' && typeof entry['refusal'] === 'string') return entry['refusal']
      throw new BatonError(
        'request.unsupported_parameter',
        `\`${path}[${index}]\`: content of type "${entry.type}" is not supported, only text is`,
        { data: { param: `${path}[${index}]` } },
      )
    })
    .join('\n')
}
