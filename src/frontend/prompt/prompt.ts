/**
 * Converts the client's messages or prompts to token ids. The result is returned without a promise when no
 * other thread is needed, as for nearly every chat.
 */
import { BatonError } from '../../base/index.ts'
import type { ChatCall, GenerationOptions, Prompt } from '../../api/index.ts'
import { encodeChat, renderChatInSteps } from '../../text/index.ts'
import type { EncodeOptions, ModelText, RenderedChat } from '../../text/index.ts'
import { refuseEndlessText, refuseHopelessText } from './context-window.ts'

export interface PreparedPrompt {
  readonly tokenIds: Uint32Array
  /** The rendered text; undefined when the client sent tokens. */
  readonly text?: string
  /** The client's field, if it is not the one that usually has the prompt. */
  readonly param?: string
}

/** How long texts are converted without holding up the event loop. */
export interface OffLoop {
  /**
   * Encodes a long text outside of the event loop; undefined: the text is not long. Several texts of one call count
   * with their total length. Throws as `refuse` does.
   */
  encode(
    text: string,
    options: EncodeOptions,
    charactersOfAll?: number,
  ): Promise<Uint32Array> | undefined
  /** Throws if the text is too long to be encoded at all. */
  readonly refuse: (text: string) => void
  /** Resolves when other work had its turn. */
  pause(): Promise<void>
}

/** For a generating call: a text that cannot fit the context is refused before it is encoded. */
export function withinContext(
  offLoop: OffLoop,
  model: ModelText,
  contextLength: number | undefined,
  param: string,
): OffLoop {
  return refusing(offLoop, (text) => refuseHopelessText(text, model, contextLength, param))
}

/** For a call that only counts: a text that is many times too long is refused before it is encoded. */
export function withinCount(
  offLoop: OffLoop,
  contextLength: number | undefined,
  param: string,
): OffLoop {
  return refusing(offLoop, (text) => refuseEndlessText(text, contextLength, param))
}

function refusing(offLoop: OffLoop, refuse: (text: string) => void): OffLoop {
  return {
    ...offLoop,
    refuse,
    encode: (text, options, charactersOfAll) => {
      refuse(text)
      return offLoop.encode(text, options, charactersOfAll)
    },
  }
}

export function chatPrompt(
  call: ChatCall,
  model: ModelText,
  offLoop: OffLoop,
  options: { readonly addGenerationPrompt?: boolean; readonly param?: 'messages' | 'input' } = {},
): PreparedPrompt | Promise<PreparedPrompt> {
  const { param = 'messages' } = options
  const given = tokenData(call, model)
  if (given !== undefined) return given
  if (call.nvext.use_raw_prompt === true) {
    const text = call.messages.map((message) => message.content).join('')
    return textPrompt(text, model, offLoop, { param })
  }
  if (model.template === null) {
    throw new BatonError(
      'request.invalid_argument',
      `\`${param}\`: the model has no chat template: use /v1/completions`,
      { data: { param } },
    )
  }
  const input = {
    messages: call.messages.map((message) => ({ ...message })),
    kwargs: call.templateArguments,
    addGenerationPrompt: options.addGenerationPrompt ?? call.addGenerationPrompt,
    continueFinalMessage: call.continueFinalMessage,
    ...(offersTools(call) ? { tools: call.tools } : {}),
  }
  const rendering = renderChatInSteps(model.template, model.tokenizer, input, offLoop.refuse)
  return inSteps(rendering, offLoop, (rendered) => encodedChat(rendered, model, offLoop, param))
}

/** Runs the steps with pauses; without a promise if there is only one. */
function inSteps<Value, Out>(
  steps: Iterator<undefined, Value>,
  offLoop: OffLoop,
  then: (value: Value) => Out | Promise<Out>,
): Out | Promise<Out> {
  const first = steps.next()
  return first.done === true ? then(first.value) : otherSteps(steps, offLoop).then(then)
}

async function otherSteps<Value>(
  steps: Iterator<undefined, Value>,
  offLoop: OffLoop,
): Promise<Value> {
  for (;;) {
    await offLoop.pause()
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

function encodedChat(
  rendered: RenderedChat,
  model: ModelText,
  offLoop: OffLoop,
  param: string,
): PreparedPrompt | Promise<PreparedPrompt> {
  const { text, literalRanges } = rendered
  const prepared = (tokenIds: Uint32Array): PreparedPrompt => ({
    tokenIds: nonEmpty(tokenIds, param),
    text,
  })
  const elsewhere = offLoop.encode(text, { special: true, literalRanges })
  return elsewhere?.then(prepared) ?? prepared(encodeChat(model.tokenizer, rendered))
}

/** True when the model gets the tools and its output is parsed for calls. */
export function offersTools(call: ChatCall): boolean {
  return call.tools.length > 0 && call.toolChoice !== 'none'
}

export async function completionPrompts(
  prompts: readonly Prompt[],
  call: GenerationOptions,
  model: ModelText,
  offLoop: OffLoop,
): Promise<PreparedPrompt[]> {
  const given = tokenData(call, model)
  if (given !== undefined) return prompts.map(() => given)
  const characters = charactersOf(prompts)
  return await inTurn(prompts, (prompt) =>
    typeof prompt === 'string'
      ? textPrompt(prompt, model, offLoop, { param: 'prompt', characters })
      : { tokenIds: inVocabulary(prompt, model, 'prompt') },
  )
}

/** Ids that the client has made; `param` is the name of their field. */
export function tokenPrompt(
  tokenIds: Uint32Array,
  model: ModelText,
  param: string,
): PreparedPrompt {
  return { tokenIds: inVocabulary(tokenIds, model, param) }
}

/**
 * A raw prompt of a user: control tokens in it have their meaning, because the client writes its own template.
 */
function textPrompt(
  text: string,
  model: ModelText,
  offLoop: OffLoop,
  { param, characters = text.length }: { readonly param: string; readonly characters?: number },
): PreparedPrompt | Promise<PreparedPrompt> {
  const options = { special: true, addBos: model.tokenizer.addsBos }
  const clean = text.replaceAll('\u0000', '')
  const prepared = (tokenIds: Uint32Array): PreparedPrompt => ({
    tokenIds: nonEmpty(tokenIds, param),
    text: clean,
  })
  const elsewhere = offLoop.encode(clean, options, characters)
  return elsewhere?.then(prepared) ?? prepared(model.tokenizer.encode(clean, options))
}

/** What becomes one vector. */
export interface EmbeddingInput {
  readonly content: Prompt
  /** The client's field that has it. */
  readonly param: string
}

/** Text to embed is data: control tokens in it are plain text. */
export async function embeddingPrompts(
  inputs: readonly EmbeddingInput[],
  model: ModelText,
  offLoopFor: (param: string) => OffLoop,
): Promise<Uint32Array[]> {
  const options = { special: false, addBos: model.tokenizer.addsBos }
  const characters = charactersOf(inputs.map(({ content }) => content))
  return await inTurn(inputs, async ({ content, param }) => {
    if (typeof content !== 'string') return inVocabulary(content, model, param)
    const elsewhere = await offLoopFor(param).encode(content, options, characters)
    return nonEmpty(elsewhere ?? model.tokenizer.encode(content, options), param)
  })
}

function charactersOf(texts: readonly (string | Uint32Array)[]): number {
  return texts.reduce((sum, text) => sum + (typeof text === 'string' ? text.length : 0), 0)
}

/** One after the other, so that a call with many texts does not fill the tokenizer's queue. */
async function inTurn<In, Out>(
  items: readonly In[],
  work: (item: In) => Out | Promise<Out>,
): Promise<Out[]> {
  const done: Out[] = []
  for (const item of items) done.push(await work(item))
  return done
}

function tokenData(call: GenerationOptions, model: ModelText): PreparedPrompt | undefined {
  const ids = call.nvext.token_data
  if (ids === undefined) return undefined
  const param = 'nvext.token_data'
  return { tokenIds: inVocabulary(nonEmpty(Uint32Array.from(ids), param), model, param), param }
}

function nonEmpty(tokenIds: Uint32Array, param: string): Uint32Array {
  if (tokenIds.length > 0) return tokenIds
  throw new BatonError('request.invalid_argument', `\`${param}\`: the prompt has no tokens`, {
    data: { param },
  })
}

/** Refuses unknown ids by name; in the engine they would cause an internal error. */
function inVocabulary(tokenIds: Uint32Array, model: ModelText, param: string): Uint32Array {
  const { vocabSize } = model.tokenizer
  const wrong = tokenIds.find((id) => id >= vocabSize)
  if (wrong === undefined) return tokenIds
  throw new BatonError(
    'request.invalid_argument',
    `\`${param}\`: token id ${wrong} is not in the vocabulary of ${vocabSize} tokens`,
    { data: { param, tokenId: wrong, vocabSize } },
  )
}
