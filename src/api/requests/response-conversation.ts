/** The input of a response as chat messages, and the field that each message was made of. */
import { BatonError } from '../../base/index.ts'
import { nameInSpace } from '../fields/offered-tools.ts'
import type { ResponseItem as Item } from './response-items.ts'

/** The field that a message was made of. */
export interface Place {
  readonly at: string
  readonly isOutput: boolean
}

export interface Conversation {
  readonly messages: readonly unknown[]
  /** One per message. */
  readonly places: readonly Place[]
}

interface ConversationFields {
  readonly instructions?: string | undefined
  readonly input: string | readonly Item[]
}

/** Throws `request.invalid_argument` for the output of a call that is not in the input. */
export function conversationOf({ instructions, input }: ConversationFields): Conversation {
  const messages: Record<string, unknown>[] = []
  const places: Place[] = []
  const took = (at: string, isOutput = false): void => {
    if (places.length < messages.length) places.push({ at, isOutput })
  }
  if (instructions !== undefined) {
    messages.push({ role: 'system', content: instructions })
    took('instructions')
  }
  if (typeof input === 'string') {
    messages.push({ role: 'user', content: input })
    took('input')
    return { messages, places }
  }
  const calls = new Set<string>()
  input.forEach((entry, index) => {
    checkCall(entry, calls, `input[${index}].call_id`)
    addItem(messages, entry)
    took(`input[${index}]`, entry.type?.endsWith('_output') === true)
  })
  return { messages, places }
}

/** An output answers an earlier call. `calls`: the ids of those before `entry`, to which its own is added. */
function checkCall(entry: Item, calls: Set<string>, param: string): void {
  const { type, call_id: id } = entry as { readonly type?: string; readonly call_id?: unknown }
  if (typeof id !== 'string') return
  if (type === 'function_call' || type === 'custom_tool_call') calls.add(id)
  const isOutput = type === 'function_call_output' || type === 'custom_tool_call_output'
  if (!isOutput || calls.has(id)) return
  const kind = type === 'function_call_output' ? 'function call' : 'custom tool call'
  throw new BatonError(
    'request.invalid_argument',
    `No tool call found for ${kind} output with call_id ${id}.`,
    { data: { param } },
  )
}

function addItem(messages: Record<string, unknown>[], entry: Item): void {
  if (entry.type === 'reasoning' || isOfHostedTool(entry)) return
  if (entry.type === 'function_call') addCall(messages, entry)
  else if (entry.type === 'custom_tool_call') {
    addCall(messages, { ...entry, arguments: JSON.stringify({ input: entry['input'] }) })
  } else if (entry.type === 'function_call_output' || entry.type === 'custom_tool_call_output') {
    messages.push({
      role: 'tool',
      // Some templates need an id.
      tool_call_id: entry['call_id'] ?? entry['id'] ?? 'none',
      content: partsOf(entry['output']),
    })
  } else messages.push({ role: entry['role'], content: partsOf(entry['content']) })
}

function isOfHostedTool({ type }: { readonly type?: string | undefined }): boolean {
  return type === 'web_search_call' || type === 'image_generation_call'
}

/** Consecutive calls belong to one assistant turn. */
function addCall(messages: Record<string, unknown>[], entry: Record<string, unknown>): void {
  const call = {
    id: entry['call_id'],
    type: 'function',
    function: {
      name: nameInSpace(entry['namespace'], entry['name']),
      arguments: entry['arguments'],
    },
  }
  const last = messages.at(-1)
  if (last?.['role'] === 'assistant') {
    // Added in place: a copy per call would be quadratic.
    const calls = last['tool_calls']
    if (Array.isArray(calls)) calls.push(call)
    else last['tool_calls'] = [call]
  } else messages.push({ role: 'assistant', content: '', tool_calls: [call] })
}

function partsOf(value: unknown): unknown {
  if (!Array.isArray(value)) return value
  return (value as { type: string; text?: string }[]).map((entry) =>
    entry.type === 'output_text' ? { type: 'text', text: entry.text } : entry,
  )
}
