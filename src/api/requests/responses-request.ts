/**
 * `POST /v1/responses`: schema, and the translation to a chat request. Fields that need server state are taken out
 * before; without stored responses they are refused with 501.
 */
import { z } from 'zod'
import { BatonError, withPlainIntegers } from '../../base/index.ts'
import { parseChatRequest } from './chat-request.ts'
import type { ChatCall } from './chat-request.ts'
import { customToolFunction } from '../fields/custom-tool.ts'
import { offeredTools, toolSchema } from '../fields/offered-tools.ts'
import type { OwnTool, ToolPlace } from '../fields/offered-tools.ts'
import { invalid, unsupported } from '../fields/generation-fields.ts'
import { nvextSchema } from '../fields/nvext.ts'
import { withFieldNames, withFormatField } from '../fields/renamed-fault.ts'
import { given, withoutNulls } from '../fields/plain-fields.ts'
import { checked } from '../fields/schema-check.ts'
import { fieldsSchema, metadataSchema } from '../fields/record-schema.ts'
import { conversationOf } from './response-conversation.ts'
import type { Place } from './response-conversation.ts'
import { itemSchema, referenceOf, referenceSchema } from './response-items.ts'

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
  input: z.union([z.string(), z.array(itemSchema).min(1)], 'must be a text, or at least one item'),
  instructions: z.string().optional(),
  max_output_tokens: z.int().min(1).optional(),
  temperature: z.number().min(0).max(2).optional(),
  top_p: z.number().min(0).max(1).optional(),
  top_logprobs: z.int().min(0).max(20).optional(),
  stream: z.boolean().optional(),
  stream_options: z.looseObject({}).optional(),
  tools: z.array(toolSchema).optional(),
  tool_choice: z
    .union([
      z.enum(['none', 'auto', 'required']),
      z.looseObject({ type: z.enum(['function', 'custom']), name: z.string() }),
      z.looseObject({
        type: z.literal('allowed_tools'),
        mode: z.enum(['auto', 'required']),
        tools: z.array(z.looseObject({ name: z.string().min(1) })).min(1),
      }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  text: z.strictObject({ format: format.optional(), verbosity: z.string().optional() }).optional(),
  reasoning: z
    .strictObject({
      effort: z.string().nullish(),
      summary: z.string().nullish(),
      /** The former name of `summary`. */
      generate_summary: z.string().nullish(),
    })
    .optional(),
  /** `auto` may drop items from a prompt that is too long; here it is refused, as with `disabled`. */
  truncation: z.enum(['disabled', 'auto']).optional(),
  /** Concerns tools that the server runs itself, of which there are none here. */
  max_tool_calls: z.int().min(1).optional(),
  metadata: metadataSchema.optional(),
  user: z.string().optional(),
  store: z.boolean().optional(),
  service_tier: z.string().optional(),
  safety_identifier: z.string().optional(),
  prompt_cache_key: z.string().optional(),
  prompt_cache_retention: z.string().optional(),
  prompt_cache_options: z.looseObject({}).optional(),
  include: z.array(z.string()).optional(),
  client_metadata: fieldsSchema.optional(),
  /** Compacts long conversations on OpenAI's server; here a conversation that is too long is refused. */
  context_management: z.array(z.looseObject({})).optional(),
  nvext: nvextSchema.optional(),
})

type ResponsesFields = z.infer<typeof responsesRequestSchema>

interface ResponsesCall {
  readonly chat: ChatCall
  /** Fields that the response object repeats. */
  readonly echo: Readonly<Record<string, unknown>>
  /** Tools with text input. */
  readonly customTools: ReadonlySet<string>
  /** By the name that the model knows: namespace and name of a tool in a namespace. */
  readonly toolPlaces: ReadonlyMap<string, ToolPlace>
}

const NEEDS_STATE = ['previous_response_id', 'conversation', 'prompt']

const LOGPROBS = 'message.output_text.logprobs'
/**
 * Values of `include` that are accepted: for tools that are not run here, for what is always included, and for what
 * has a field of its own.
 */
const INCLUDES: readonly string[] = [
  LOGPROBS,
  'reasoning.encrypted_content',
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'web_search_call.action.sources',
  'web_search_call.results',
]

export const conversationSchema = z.strictObject({
  items: z.array(itemSchema).optional(),
  metadata: metadataSchema.optional(),
})

export function parseConversation(
  body: Record<string, unknown>,
): z.infer<typeof conversationSchema> {
  return checked(conversationSchema, withoutNulls(body))
}

export const itemsSchema = z.strictObject({ items: z.array(itemSchema).min(1) })

export function parseItems(body: Record<string, unknown>): readonly unknown[] {
  return checked(itemsSchema, withoutNulls(body)).items
}

/** State that a client refers to instead of sending; taken out of the body. */
export interface ResponsesState {
  readonly previousResponseId?: string
  readonly conversationId?: string
  /** The response is to be stored. */
  readonly store: boolean
  /** The request runs in the background; the client does not wait. */
  readonly background: boolean
}

const stateSchema = z.object({
  previous_response_id: z.string().nullish(),
  conversation: z.union([z.string(), z.looseObject({ id: z.string() })]).nullish(),
  store: z.boolean().nullish(),
  background: z.boolean().nullish(),
})

/** The schema with stored responses, for the OpenAPI document: state is taken out before the rest is validated. */
export const statefulResponsesSchema = responsesRequestSchema.extend({
  input: z.union([z.string(), z.array(z.union([itemSchema, referenceSchema])).min(1)]),
  previous_response_id: z.string().optional(),
  conversation: z.union([z.string(), z.looseObject({ id: z.string() })]).optional(),
  background: z.boolean().optional(),
})

/** Replaces references by the items that `find` returns. */
export function withReferredItems(
  items: readonly unknown[],
  find: (id: string) => unknown,
): readonly unknown[] {
  return items.map((item) => {
    const id = referenceOf(item)
    return id === undefined ? item : find(id)
  })
}

/** For a server that stores responses. */
export function takeResponsesState(body: Record<string, unknown>): ResponsesState {
  const fields = checked(stateSchema, body)
  const { previous_response_id: previous, conversation, store } = fields
  const background = fields.background === true
  if (background && store === false) throw invalid('store', 'must be true with `background`')
  if (previous != null && conversation != null) {
    throw invalid('previous_response_id', 'cannot be used together with `conversation`')
  }
  delete body['previous_response_id']
  delete body['conversation']
  delete body['background']
  const id = typeof conversation === 'string' ? conversation : conversation?.id
  return {
    store: store ?? true,
    background,
    ...given({ previousResponseId: previous ?? undefined, conversationId: id }),
  }
}

/** The input of a request as a list of items. */
export function itemsOf(input: unknown): readonly unknown[] {
  return Array.isArray(input) ? (input as unknown[]) : [{ role: 'user', content: input }]
}

export function parseResponsesRequest(body: Record<string, unknown>): ResponsesCall {
  const own = withoutNulls(body)
  refuseState(own)
  const fields = checked(responsesRequestSchema, own)
  const unknownName = fields.include?.find((name) => !INCLUDES.includes(name))
  if (unknownName !== undefined) throw unsupported(`include: ${unknownName}`)
  const { tools, places: toolPlaces } = offeredTools(fields.tools ?? [])
  const { messages, places } = conversationOf(fields)
  const chat = withFieldNames(
    (param) => ownName(param, places),
    () => parseChatRequest(chatBody(fields, messages, tools, own['nvext'])),
  )
  const custom = tools.filter(({ type }) => type === 'custom')
  const customTools = new Set(custom.map(({ name }) => name))
  return {
    chat: withFormatField(chat, 'text.format'),
    echo: echoOf(fields),
    customTools,
    toolPlaces,
  }
}

const OWN_NAMES: Readonly<Record<string, string>> = {
  messages: 'input',
  reasoning_effort: 'reasoning.effort',
  max_completion_tokens: 'max_output_tokens',
}

function ownName(param: string, places: readonly Place[]): string {
  const [, index, rest = ''] = /^messages\[(\d+)\](.*)$/.exec(param) ?? []
  const place = places[Number(index)]
  if (place === undefined) return OWN_NAMES[param] ?? param
  return place.at + (place.isOutput ? rest.replace('.content', '.output') : rest)
}

function refuseState(body: Record<string, unknown>): void {
  const reference = itemsOf(body['input']).findIndex((item) => referenceOf(item) !== undefined)
  const named = NEEDS_STATE.find((key) => key in body)
  const ofInput = reference < 0 ? undefined : `input[${reference}]`
  const name = body['background'] === true ? 'background' : (named ?? ofInput)
  delete body['background']
  if (name === undefined) return
  throw new BatonError(
    'runtime.not_implemented',
    `\`${name}\` needs state on the server, which is not kept`,
    { data: { param: name } },
  )
}

function chatBody(
  fields: ResponsesFields,
  messages: readonly unknown[],
  tools: readonly OwnTool[],
  nvext: unknown,
): Record<string, unknown> {
  return given({
    model: fields.model,
    messages,
    max_completion_tokens: fields.max_output_tokens,
    temperature: fields.temperature,
    top_p: fields.top_p,
    ...logprobsOf(fields),
    stream: fields.stream,
    tools:
      tools.length === 0
        ? undefined
        : tools.map((entry) => ({ type: 'function', function: functionOf(entry) })),
    // Without tools a call cannot be forced, which is refused.
    tool_choice:
      tools.length === 0 && fields.tool_choice === 'auto'
        ? undefined
        : toolChoice(fields.tool_choice),
    parallel_tool_calls: fields.parallel_tool_calls,
    response_format: responseFormat(fields.text?.format),
    reasoning_effort: fields.reasoning?.effort ?? undefined,
    nvext,
  })
}

function logprobsOf({ include, top_logprobs: top = 0 }: ResponsesFields): object {
  const isAsked = top > 0 || include?.includes(LOGPROBS) === true
  return isAsked ? { logprobs: true, top_logprobs: top } : {}
}

function functionOf(entry: OwnTool): Record<string, unknown> {
  if (entry.type === 'custom') return { ...customToolFunction(entry) }
  const { name, description, parameters, strict } = entry
  return { name, description, parameters, strict }
}

function toolChoice(choice: ResponsesFields['tool_choice']): unknown {
  if (typeof choice !== 'object') return choice
  if (choice.type !== 'allowed_tools') return { type: 'function', function: { name: choice.name } }
  const tools = choice.tools.map(({ name }) => ({ function: { name } }))
  return { type: 'allowed_tools', allowed_tools: { mode: choice.mode, tools } }
}

function responseFormat(asked: z.infer<typeof format> | undefined): unknown {
  if (asked?.type !== 'json_schema') return asked
  return {
    type: 'json_schema',
    json_schema: given({ name: asked.name, schema: asked.schema, strict: asked.strict }),
  }
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
    text: { format: withPlainIntegers(fields.text?.format ?? { type: 'text' }) },
    tool_choice: fields.tool_choice ?? 'auto',
    tools: withPlainIntegers(fields.tools ?? []),
    top_p: fields.top_p ?? 1,
    top_logprobs: fields.top_logprobs ?? 0,
    truncation: 'disabled',
    ...given({
      max_tool_calls: fields.max_tool_calls,
      user: fields.user,
      safety_identifier: fields.safety_identifier,
      prompt_cache_key: fields.prompt_cache_key,
      prompt_cache_retention: fields.prompt_cache_retention,
      prompt_cache_options: fields.prompt_cache_options,
    }),
  }
}
