/**
 * The Jinja chat template of a model: compiled once, rendered per request, and tokenised so that only the template
 * itself can write control tokens.
 */
import { Template } from '@huggingface/jinja'
import { BatonError } from '../base/index.ts'
import { ControlTextGuard, controlTextPatternOf } from './control-text-guard.ts'
import { isRecord } from './json-value.ts'
import type { Tokenizer } from './tokenizer.ts'

export interface ChatMessage {
  readonly role: string
  /** Text, or parts of which only `{type: 'text', text}` reach a text model. */
  readonly content?: string | readonly ChatContentPart[] | null
  readonly name?: string
  readonly tool_calls?: readonly unknown[]
  readonly tool_call_id?: string
  readonly reasoning_content?: string
  readonly [field: string]: unknown
}

export interface ChatContentPart {
  readonly type: string
  readonly text?: string
  readonly [field: string]: unknown
}

export interface ChatInput {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly unknown[]
  /** Absent: true. */
  readonly addGenerationPrompt?: boolean
  /** `chat_template_kwargs` of the request: `enable_thinking` and whatever else the template knows. */
  readonly kwargs?: Readonly<Record<string, unknown>>
}

export interface RenderedChat {
  readonly text: string
  /** Where user text would have become a control token; see `EncodeOptions`. */
  readonly literalRanges: readonly number[]
}

export interface ChatTemplateOptions {
  readonly bosToken?: string
  readonly eosToken?: string
}

export class ChatTemplate {
  readonly source: string
  /** Writes the arguments of earlier calls from values, not from the JSON text that clients send. */
  readonly takesParsedArguments: boolean
  readonly #template: Template
  readonly #constants: Readonly<Record<string, unknown>>

  /** Throws `model.load_failed` when the template cannot be parsed. */
  constructor(source: string, options: ChatTemplateOptions = {}) {
    this.source = source
    this.takesParsedArguments = /arguments\s*\|\s*(?:tojson|items)|arguments\.items/.test(source)
    this.#constants = { bos_token: options.bosToken ?? '', eos_token: options.eosToken ?? '' }
    try {
      this.#template = new Template(source)
    } catch (thrown) {
      throw new BatonError(
        'model.load_failed',
        `the model's chat template cannot be parsed: ${messageOf(thrown)}; repair it in tokenizer_config.json or give another`,
        { cause: thrown },
      )
    }
  }

  /** Plain rendering. A template that refuses the messages (`raise_exception`) is the request's fault. */
  render(variables: Readonly<Record<string, unknown>>): string {
    try {
      return this.#template.render({ ...this.#constants, ...variables })
    } catch (thrown) {
      throw new BatonError(
        'request.invalid_argument',
        `the model's chat template does not accept these messages: ${messageOf(thrown)}`,
        { cause: thrown },
      )
    }
  }
}

export function renderChat(
  template: ChatTemplate,
  tokenizer: Tokenizer,
  input: ChatInput,
): RenderedChat {
  const messages = input.messages.map((message) => ({
    ...message,
    content: flattenContent(message.content),
    ...(message.tool_calls !== undefined && {
      tool_calls: template.takesParsedArguments
        ? message.tool_calls.map(parseArguments)
        : message.tool_calls,
    }),
  }))
  const { tools, kwargs = {} } = input
  const user = { messages, ...(tools !== undefined && { tools }), kwargs }
  const pattern = controlTextPatternOf(tokenizer.addedTokens)
  const texts = [...textsIn(user)]
  const variables = (values: typeof user): Record<string, unknown> => ({
    add_generation_prompt: input.addGenerationPrompt ?? true,
    ...values.kwargs,
    messages: values.messages,
    tools: values.tools ?? null,
  })
  // Hardly any request has a control token in its text: nothing to mark, nothing to put back.
  if (!texts.some((text) => pattern.occursIn(text))) {
    return { text: template.render(variables(user)), literalRanges: [] }
  }
  const guard = new ControlTextGuard(pattern, [...texts, template.source])
  return guard.restore(
    template.render(variables(mapTexts(user, (text) => guard.protect(text)) as typeof user)),
  )
}

/** Ids of a rendered chat. The template writes BOS itself if the model wants one. */
export function encodeChat(tokenizer: Tokenizer, rendered: RenderedChat): Uint32Array {
  return tokenizer.encode(rendered.text, { special: true, literalRanges: rendered.literalRanges })
}

/** Text parts joined; a part that is not text cannot be honoured by a text model. */
export function flattenContent(content: ChatMessage['content']): string | null {
  if (content === undefined || content === null) return null
  if (typeof content === 'string') return content
  return content
    .map((part) => {
      if (part.type === 'text' && typeof part.text === 'string') return part.text
      throw new BatonError(
        'request.unsupported_parameter',
        `messages: content parts of type '${part.type}' are not supported by this model`,
      )
    })
    .join('')
}

/** A call of the OpenAI form with its arguments as a value; anything else as it is. */
function parseArguments(call: unknown): unknown {
  if (!isRecord(call) || !isRecord(call['function'])) return call
  const text = call['function']['arguments']
  if (typeof text !== 'string') return call
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? { ...call, function: { ...call['function'], arguments: value } } : call
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return call
    throw thrown
  }
}

function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value
  else if (Array.isArray(value)) for (const item of value as unknown[]) yield* textsIn(item)
  else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      yield key
      yield* textsIn(item)
    }
  }
}

function mapTexts(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value)
  if (Array.isArray(value)) return value.map((item: unknown) => mapTexts(item, map))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [map(key), mapTexts(item, map)]),
  )
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
