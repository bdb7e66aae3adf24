/** The items in the input of a response and in a conversation. */
import { z } from 'zod'
import { isRecord } from '../../base/index.ts'

const part = z.looseObject({ type: z.string(), text: z.string().optional() })
const content = z.union([z.string(), z.array(part)])

/** Earlier messages, calls and results. Searches and images come from another server. */
export const itemSchema = z.union(
  [
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
    // A notice of a coding agent in the form of an output; no call asked for it.
    z.looseObject({
      type: z.literal('function_call_output'),
      call_id: z.null().optional(),
      name: z.string(),
      output: content,
    }),
    z.looseObject({
      type: z.literal('custom_tool_call'),
      call_id: z.string(),
      name: z.string(),
      input: z.string(),
    }),
    z.looseObject({
      type: z.literal('custom_tool_call_output'),
      call_id: z.string(),
      output: content,
    }),
    z.looseObject({ type: z.literal('reasoning') }),
    z.looseObject({
      type: z.literal('message').optional(),
      role: z.enum(['system', 'developer', 'user', 'assistant']),
      content,
    }),
    z.looseObject({ type: z.enum(['web_search_call', 'image_generation_call']) }),
  ],
  'must be a message, a reasoning, a function_call or custom_tool_call or its output, or an item_reference',
)

export type ResponseItem = z.infer<typeof itemSchema>

export const referenceSchema = z.looseObject({
  type: z.literal('item_reference').nullish(),
  id: z.string(),
})

/** The id of an item that is referenced instead of sent; used by clients that rely on stored responses. */
export function referenceOf(item: unknown): string | undefined {
  if (!isRecord(item) || typeof item['id'] !== 'string') return undefined
  // A reference may omit the type.
  const isReference =
    item['type'] === 'item_reference' || (item['type'] == null && item['role'] === undefined)
  return isReference ? item['id'] : undefined
}
