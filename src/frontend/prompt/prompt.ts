/**
 * Converts the client's messages or prompts to token ids. The result is returned without a promise when no
 * other thread is needed, as for nearly every chat.
 */
import { BatonError } from '../../base/index.ts'
import type { ChatCall, GenerationOptions, Prompt } from '../../api/index.ts'
import { encodeChat, renderChat } from '../../text/index.ts'
import type { EncodeOptions, ModelText } from '../../text/index.ts'
import { refuseEndlessText, refuseHopelessText } from './context-window.ts'

export interface PreparedPrompt {
  readonly tokenIds: Uint32Array
  /** The rendered text; undefined when the client sent tokens. */
  readonly text?: string
}

/**
 * Encodes a long text outside of the event loop; undefined: the text is not long. Several texts of one call
 * count with their total length.
 */
export type OffLoop = (
  text: string,
  options: EncodeOptions,
  charactersOfAll?: number,
) => Promise<Uint32Array> | undefined

/** For a generating call: a text that cannot fit the context is refused before it is encoded. */
export function withinContext(
  offLoop: OffLoop,
  model: ModelText,
  contextLength: number | undefined,
  param: string,
): OffLoop {
  return (text, options, charactersOfAll) => {
    refuseHopelessText(text, model, contextLength, param)
    return offLoop(text, options, charactersOfAll)
  }
}

/** For a call that only counts: a text that is many times too long is refused before it is encoded. */
export function withinCount(
  offLoop: OffLoop,
  contextLength: number | undefined,
  param: string,
): OffLoop {
  return (text, options, charactersOfAll) => {
    refuseEndlessText(text, contextLength, param)
    return offLoop(text, options, charactersOfAll)
  }
}

export function chatPrompt(
  call: ChatCall,
  model: ModelText,
  offLoop: OffLoop,
  options: { readonly addGenerationPrompt?: boolean } = {},
): PreparedPrompt | Promise<PreparedPrompt> {
  const given = tokenData(call, model)
  if (given !== undefined) return { tokenIds: given }
  if (call.nvext.use_raw_prompt === true) {
    const text = call.messages.map((message) => message.content).join('')
    return textPrompt(text, model, offLoop)
  }
  if (model.template === null) {
    throw new BatonError(
      'request.invalid_argument',
      `the model has no chat template: use /v1/completions`,
      { data: { param: 'messages' } },
    )
  }
  const rendered = renderChat(model.template, model.tokenizer, {
    messages: call.messages.map((message) => ({ ...message })),
    kwargs: call.templateArguments,
    addGenerationPrompt: options.addGenerationPrompt ?? call.addGenerationPrompt,
    continueFinalMessage: call.continueFinalMessage,
    ...(offersTools(call) ? { tools: call.tools } : {}),
  })
  const { literalRanges } = rendered
  const prepared = (tokenIds: Uint32Array): PreparedPrompt => ({
    tokenIds: nonEmpty(tokenIds, 'messages'),
    text: rendered.text,
  })
  const elsewhere = offLoop(rendered.text, { special: true, literalRanges })
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
  if (given !== undefined) return prompts.map(() => ({ tokenIds: given }))
  const characters = charactersOf(prompts)
  return await inTurn(prompts, (prompt) =>
    typeof prompt === 'string'
      ? textPrompt(prompt, model, offLoop, characters)
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
  charactersOfAll = text.length,
): PreparedPrompt | Promise<PreparedPrompt> {
  const options = { special: true, addBos: model.tokenizer.addsBos }
  const clean = text.replaceAll('\u0000', '')
  const prepared = (tokenIds: Uint32Array): PreparedPrompt => ({
    tokenIds: nonEmpty(tokenIds, 'prompt'),
    text: clean,
  })
  const elsewhere = offLoop(clean, options, charactersOfAll)
  return elsewhere?.then(prepared) ?? prepared(model.tokenizer.encode(clean, options))
}

/** Text to embed is data: control tokens in it are plain text. */
export async function embeddingPrompts(
  inputs: readonly (string | Uint32Array)[],
  model: ModelText,
  offLoop: OffLoop,
): Promise<Uint32Array[]> {
  const options = { special: false, addBos: model.tokenizer.addsBos }
  const characters = charactersOf(inputs)
  return await inTurn(inputs, async (input) => {
    if (typeof input !== 'string') return inVocabulary(input, model, 'input')
    const elsewhere = await offLoop(input, options, characters)
    return nonEmpty(elsewhere ?? model.tokenizer.encode(input, options), 'input')
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

function tokenData(call: GenerationOptions, model: ModelText): Uint32Array | undefined {
  const ids = call.nvext.token_data
  if (ids === undefined) return undefined
  return inVocabulary(
    nonEmpty(Uint32Array.from(ids), 'nvext.token_data'),
    model,
    'nvext.token_data',
  )
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
