/** Renders messages to text and encodes it, so that only the template itself can write control tokens. */
import { BatonError } from '../../base/index.ts'
import type { ChatTemplate } from './chat-template.ts'
import { beforeMarker, unusedMarker, withMarker } from './continued-message.ts'
import { ControlTextGuard } from './control-text-guard.ts'
import { controlTextPatternOf } from './control-text-pattern.ts'
import type { ControlTextPattern } from './control-text-pattern.ts'
import { formsToTry, shapeMessages } from './message-form.ts'
import type { ChatMessage, MessageForm } from './message-form.ts'
import { Pace, withoutPauses } from './paced-scan.ts'
import { collectTexts, mapTexts } from './text-values.ts'
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

export interface RenderedChat {
  readonly text: string
  /** Ranges of user text that would otherwise become control tokens; see `EncodeOptions`. */
  readonly literalRanges: readonly number[]
}

/** Throws if a text is too long for whatever it is rendered for. */
type Refuse = (text: string) => void

/** A rendering of which marked characters are still to be restored; without a guard there are none. */
interface MarkedChat {
  readonly text: string
  readonly guard: ControlTextGuard | null
}

/** Texts that are longer together are rendered without marks first, to see whether they are worth marking. */
const LONG_CHARACTERS = 1024 * 1024
/** Rendering one text, or one field name, takes about as long as looking at so many characters. */
const CHARACTERS_PER_TEXT = 20

export function renderChat(
  template: ChatTemplate,
  tokenizer: Tokenizer,
  input: ChatInput,
): RenderedChat {
  return withoutPauses(renderChatInSteps(template, tokenizer, input, () => undefined))
}

/**
 * As `renderChat`, in steps between which other work may run, if there are very many texts, or much user text that
 * looks like control tokens. `refuse` is asked as soon as the length of such a chat is known, because what follows takes time and memory.
 */
export function* renderChatInSteps(
  template: ChatTemplate,
  tokenizer: Tokenizer,
  input: ChatInput,
  refuse: Refuse,
): Generator<undefined, RenderedChat> {
  const pace = new Pace()
  const marker = input.continueFinalMessage === true ? yield* markerFor(input, pace) : null
  const upToMarker = (text: string): string => (marker === null ? text : beforeMarker(text, marker))
  const shown =
    marker === null
      ? input
      : { ...input, messages: withMarker(input.messages, marker), addGenerationPrompt: false }
  const own = input.tools === undefined ? template : template.forTools
  const marked = yield* renderWhole({ template: own, tokenizer, pace }, shown, (plain) =>
    refuse(upToMarker(plain)),
  )
  const rendered = upToMarker(marked.text)
  const { guard } = marked
  if (guard === null) return { text: rendered, literalRanges: [] }
  const text = yield* guard.restore(rendered)
  refuse(text)
  return { text, literalRanges: guard.literalRanges(rendered) }
}

function markerFor(input: ChatInput, pace: Pace): Generator<undefined, string> {
  const texts: string[] = []
  collectTexts([input.messages, input.tools ?? null, input.kwargs ?? null], texts)
  return unusedMarker(texts, pace)
}

interface Renderer {
  readonly template: ChatTemplate
  readonly tokenizer: Tokenizer
  readonly pace: Pace
}

function* renderWhole(
  renderer: Renderer,
  input: ChatInput,
  refuse: Refuse,
): Generator<undefined, MarkedChat> {
  const { template } = renderer
  let refusal: BatonError | null = null
  const forms = formsToTry(template.form, input.messages, input.tools !== undefined)
  for (const form of forms) {
    try {
      const rendered = yield* renderForm(renderer, input, form, refuse)
      if (form !== template.form) template.acceptsForm(form)
      return rendered
    } catch (thrown) {
      if (!isRejection(thrown)) throw thrown
      refusal ??= thrown
    }
  }
  throw refusal ?? new BatonError('runtime.internal', 'internal error: no message form was tried')
}

/** The template does not accept the messages; perhaps it does in another form. */
function isRejection(thrown: unknown): thrown is BatonError {
  return thrown instanceof BatonError && thrown.code === 'request.invalid_argument'
}

/** Token ids of a rendered chat. The template writes BOS itself if the model needs it. */
export function encodeChat(tokenizer: Tokenizer, rendered: RenderedChat): Uint32Array {
  return tokenizer.encode(rendered.text, { special: true, literalRanges: rendered.literalRanges })
}

function* renderForm(
  { template, tokenizer, pace }: Renderer,
  input: ChatInput,
  form: MessageForm,
  refuse: Refuse,
): Generator<undefined, MarkedChat> {
  const { tools, kwargs = {} } = input
  const messages = shapeMessages(input.messages, form)
  const shownTools = tools ?? (form.emptyTools ? [] : null)
  const user: Record<string, unknown> = { messages, tools: shownTools, ...kwargs }
  user['messages'] = messages
  user['tools'] = shownTools
  const constants = { add_generation_prompt: input.addGenerationPrompt ?? true }
  const render = (values: object): string => template.render(Object.assign({}, constants, values))
  const pattern = controlTextPatternOf(tokenizer.addedTokens)
  const texts: string[] = []
  collectTexts(user, texts)
  // A template that rejects the messages is rendered once per form.
  if (pace.spend(texts.length * CHARACTERS_PER_TEXT)) yield
  // Nearly all requests have no control token in their text: nothing to replace or restore.
  if (!(yield* occursInAny(texts, pattern, pace))) return { text: render(user), guard: null }
  const isLong = texts.reduce((sum, text) => sum + text.length, 0) > LONG_CHARACTERS
  if (isLong) refuseUnmarked(() => render(user), refuse)
  const guard = new ControlTextGuard(pattern, pace)
  for (const text of texts) yield* guard.avoid(text)
  yield* guard.avoid(template.source)
  for (const [at, text] of texts.entries()) texts[at] = yield* guard.protect(text)
  if (isLong) yield
  let at = 0
  const marked = mapTexts(user, (text) => texts[at++] ?? text) as typeof user
  return { text: render(marked), guard }
}

function* occursInAny(
  texts: readonly string[],
  pattern: ControlTextPattern,
  pace: Pace,
): Generator<undefined, boolean> {
  for (const text of texts.filter((each) => pattern.mayOccurIn(each))) {
    if (yield* pattern.occursIn(text, pace)) return true
  }
  return false
}

/**
 * Without its marks a chat has the same length, unless the template looks for control tokens in user text. If it shows
 * less then, or rejects the text, the restored rendering is judged; if it shows too much, other servers show that, too.
 */
function refuseUnmarked(render: () => string, refuse: Refuse): void {
  try {
    refuse(render())
  } catch (thrown) {
    if (!isRejection(thrown)) throw thrown
  }
}
