/**
 * Converts messages to the form that a template expects. Clients send the arguments of earlier calls as JSON text and
 * omit the content next to them; some templates want parsed values, an empty text, or a tool list even if there are
 * no tools.
 */
import { BatonError, isRecord, JSON_DEPTH_MAX, objectInJson } from '../../base/index.ts'

export interface ChatMessage {
  readonly role: string
  /** Text, or parts; a text model accepts only `{type: 'text', text}`. */
  readonly content?: string | readonly ChatContentPart[] | null
  readonly name?: string
  readonly tool_calls?: readonly unknown[]
  readonly tool_call_id?: string
  readonly reasoning_content?: string
  readonly [field: string]: unknown
}

interface ChatContentPart {
  readonly type: string
  readonly text?: string
  readonly [field: string]: unknown
}

export interface MessageForm {
  /** Arguments of earlier calls as values instead of JSON text. */
  readonly parsedArguments: boolean
  /** An empty content for messages without one. */
  readonly emptyContent: boolean
  /** Without tools, an empty list instead of null. */
  readonly emptyTools: boolean
  /** Call ids shortened to nine letters and digits, as Mistral's templates require. */
  readonly shortIds: boolean
}

/** The form that the source of a template suggests. */
export function suggestedForm(source: string): MessageForm {
  const parsedArguments =
    /arguments['"]?\]?\s*(?:\|\s*(?:tojson|items)|is mapping)|arguments\.items|_args\.items/.test(
      source,
    )
  // Python's text of a missing content is `None`, which no model should see.
  const emptyContent = /content['"]?\]?\s*\|\s*string/.test(source)
  return { parsedArguments, emptyContent, emptyTools: false, shortIds: false }
}

/** The form itself, then the other forms that make a difference for these messages, smallest change first. */
export function formsToTry(
  form: MessageForm,
  messages: readonly ChatMessage[],
  hasTools: boolean,
): readonly MessageForm[] {
  const forms = [form]
  const add = (change: (form: MessageForm) => MessageForm): void => {
    forms.push(...forms.map(change))
  }
  if (messages.some((message) => (message.content ?? null) === null)) {
    add((each) => ({ ...each, emptyContent: !each.emptyContent }))
  }
  if (messages.some((message) => message.tool_calls?.some(hasTextArguments) === true)) {
    add((each) => ({ ...each, parsedArguments: !each.parsedArguments }))
  }
  if (messages.some((message) => (message.tool_calls?.length ?? 0) > 0)) {
    add((each) => ({ ...each, shortIds: !each.shortIds }))
  }
  if (!hasTools) add((each) => ({ ...each, emptyTools: !each.emptyTools }))
  return forms
}

export function shapeMessages(
  messages: readonly ChatMessage[],
  form: MessageForm,
): readonly ChatMessage[] {
  return messages.map((message) => {
    const content = flattenContent(message.content) ?? (form.emptyContent ? '' : null)
    const { tool_calls: calls, tool_call_id: callId } = message
    return {
      ...message,
      content,
      ...(calls !== undefined && { tool_calls: calls.map((call) => shapeCall(call, form)) }),
      ...(callId !== undefined && form.shortIds && { tool_call_id: shortId(callId) }),
    }
  })
}

function shapeCall(call: unknown, form: MessageForm): unknown {
  const shaped = form.parsedArguments ? parseArguments(call) : call
  if (!form.shortIds || !isRecord(shaped) || typeof shaped['id'] !== 'string') return shaped
  return { ...shaped, id: shortId(shaped['id']) }
}

/** The end of an id, because that is where ids differ. */
function shortId(id: string): string {
  return id
    .replace(/[^A-Za-z0-9]/g, '')
    .slice(-9)
    .padStart(9, '0')
}

/** Joins text parts; a text model supports no other kind of part. */
function flattenContent(content: ChatMessage['content']): string | null {
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

function hasTextArguments(call: unknown): boolean {
  return typeof functionOf(call)?.['arguments'] === 'string'
}

/** Of a call in OpenAI's form; undefined for anything else. */
function functionOf(call: unknown): Readonly<Record<string, unknown>> | undefined {
  return isRecord(call) && isRecord(call['function']) ? call['function'] : undefined
}

/**
 * A call in OpenAI's form with its arguments parsed; anything else unchanged, also arguments that are nested so deeply
 * that rendering them would overflow the stack.
 */
function parseArguments(call: unknown): unknown {
  const called = functionOf(call)
  const text = called?.['arguments']
  if (!isRecord(call) || typeof text !== 'string') return call
  const value = objectInJson(text, ({ depth }) => depth <= JSON_DEPTH_MAX)
  return value === null ? call : { ...call, function: { ...called, arguments: value } }
}
