/** Renders messages to text and encodes it, so that only the template itself can write control tokens. */
import { BatonError } from '../../base/index.ts'
import type { ChatTemplate } from './chat-template.ts'
import { ControlTextGuard, controlTextPatternOf } from './control-text-guard.ts'
import { formsToTry, shapeMessages } from './message-form.ts'
import type { ChatMessage, MessageForm } from './message-form.ts'
import type { Tokenizer } from '../tokenize/tokenizer.ts'

export interface ChatInput {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly unknown[]
  /** Absent: true. */
  readonly addGenerationPrompt?: boolean
  /** The prompt ends with the text of the last message, which the model continues; no new turn begins. */
  readonly continueFinalMessage?: boolean
  /** `chat_template_kwargs` of the request: `enable_thinking` and other variables of the template. */
  readonly kwargs?: Readonly<Record<string, unknown>>
}

interface RenderedChat {
  readonly text: string
  /** Ranges of user text that would otherwise become control tokens; see `EncodeOptions`. */
  readonly literalRanges: readonly number[]
}

export function renderChat(
  template: ChatTemplate,
  tokenizer: Tokenizer,
  input: ChatInput,
): RenderedChat {
  if (input.continueFinalMessage !== true) return renderWhole(template, tokenizer, input)
  const mark = unusedMark(input)
  const messages = input.messages.map((message, index) =>
    index === input.messages.length - 1
      ? { ...message, content: textOfContent(message) + mark }
      : message,
  )
  const marked = { ...input, messages, addGenerationPrompt: false }
  const { text, literalRanges } = renderWhole(template, tokenizer, marked)
  const end = text.lastIndexOf(mark)
  if (end < 0) {
    throw new BatonError(
      'request.invalid_argument',
      "the model's chat template does not show the last message as it is: it cannot be continued",
      { data: { param: 'messages' } },
    )
  }
  return { text: text.slice(0, end), literalRanges: rangesBefore(literalRanges, end) }
}

function textOfContent({ content }: ChatMessage): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part) => part.text ?? '').join('')
}

/** A marker for the end of the last message that does not occur in the request. */
function unusedMark(input: ChatInput): string {
  const texts: string[] = []
  collectTexts([input.messages, input.tools ?? null, input.kwargs ?? null], texts)
  const all = texts.join('\n')
  let mark = '\ue5a0'
  while (all.includes(mark)) mark += '\ue5a1'
  return `${mark}\ue5a2`
}

/** Ranges as pairs of start and end. */
function rangesBefore(ranges: readonly number[], end: number): number[] {
  const kept: number[] = []
  for (let at = 0; at + 1 < ranges.length; at += 2) {
    const [from, to] = [ranges[at] ?? 0, ranges[at + 1] ?? 0]
    if (from < end) kept.push(from, Math.min(to, end))
  }
  return kept
}

function renderWhole(template: ChatTemplate, tokenizer: Tokenizer, input: ChatInput): RenderedChat {
  let refusal: BatonError | null = null
  const forms = formsToTry(template.form, input.messages, input.tools !== undefined)
  for (const form of forms) {
    try {
      const rendered = renderForm(template, tokenizer, input, form)
      if (form !== template.form) template.acceptsForm(form)
      return rendered
    } catch (thrown) {
      if (!(thrown instanceof BatonError) || thrown.code !== 'request.invalid_argument')
        throw thrown
      refusal ??= thrown
    }
  }
  throw refusal ?? new BatonError('runtime.internal', 'internal error: no message form was tried')
}

/** Token ids of a rendered chat. The template writes BOS itself if the model needs it. */
export function encodeChat(tokenizer: Tokenizer, rendered: RenderedChat): Uint32Array {
  return tokenizer.encode(rendered.text, { special: true, literalRanges: rendered.literalRanges })
}

function renderForm(
  template: ChatTemplate,
  tokenizer: Tokenizer,
  input: ChatInput,
  form: MessageForm,
): RenderedChat {
  const { tools, kwargs = {} } = input
  const messages = shapeMessages(input.messages, form)
  const shownTools = tools ?? (form.emptyTools ? [] : null)
  const user: Record<string, unknown> = { messages, tools: shownTools, ...kwargs }
  user['messages'] = messages
  user['tools'] = shownTools
  const constants = { add_generation_prompt: input.addGenerationPrompt ?? true }
  const pattern = controlTextPatternOf(tokenizer.addedTokens)
  const texts: string[] = []
  collectTexts(user, texts)
  // Nearly all requests have no control token in their text: nothing to replace or restore.
  if (!texts.some((text) => pattern.occursIn(text))) {
    return { text: template.render(Object.assign(constants, user)), literalRanges: [] }
  }
  const guard = new ControlTextGuard(pattern, [...texts, template.source])
  const marked = mapTexts(user, (text) => guard.protect(text)) as typeof user
  return guard.restore(template.render(Object.assign(constants, marked)))
}

/** Collects every string in a JSON value, including field names. */
function collectTexts(value: unknown, into: string[]): void {
  if (typeof value === 'string') into.push(value)
  else if (Array.isArray(value)) for (const item of value as unknown[]) collectTexts(item, into)
  else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      into.push(key)
      collectTexts(item, into)
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
