/**
 * The events of a stream as text. Everything constant is built once per choice, so that a token costs one escape and
 * one concatenation. All text is ASCII.
 */
import { escapeJson, quoteJson } from '../fields/json-escape.ts'
import { usageJson } from './reply-head.ts'
import type { ClientFinishReason, ReplyHead, ReplyUsage } from './reply-head.ts'

export const DONE_EVENT = 'data: [DONE]\n\n'
export const KEEP_ALIVE_COMMENT = ': keep-alive\n\n'

/** JSON texts that accompany the text of a chunk. */
interface ChunkExtras {
  readonly logprobs?: string
  readonly usage?: string
  readonly nvext?: string
  /** Token ids of the choice since its last chunk (`return_token_ids`). */
  readonly tokenIds?: readonly number[]
  /** On the first chunk of a choice. */
  readonly promptTokenIds?: readonly number[]
}

/** Builds the chunks of one choice. */
export interface ChoiceChunks {
  content(text: string): string
  contentWith(text: string, extras: ChunkExtras): string
  reasoning(text: string, extras?: ChunkExtras): string
  /** `calls` is JSON text: the array of tool call deltas. */
  toolCalls(calls: string, extras?: ChunkExtras): string
  finish(reason: ClientFinishReason, extras?: ChunkExtras): string
}

interface ChunkOptions {
  readonly index: number
  /** With `include_usage` every chunk but the last has `usage: null`. */
  readonly includeUsage: boolean
}

function opening(head: ReplyHead, object: string): string {
  return `data: {"id":${quoteJson(head.id)},"object":"${object}","created":${head.created},"model":${quoteJson(head.model)},"choices":[`
}

/** Additional members of a choice. */
function idsOfChoice({ tokenIds }: ChunkExtras): string {
  return tokenIds === undefined ? '' : `,"token_ids":[${tokenIds.join(',')}]`
}

function idsOfPrompt({ promptTokenIds }: ChunkExtras): string {
  return promptTokenIds === undefined ? '' : `,"prompt_token_ids":[${promptTokenIds.join(',')}]`
}

function closing(extras: ChunkExtras, includeUsage: boolean, ids = ''): string {
  const usage = extras.usage ?? (includeUsage ? 'null' : undefined)
  return `]${ids}${usage === undefined ? '' : `,"usage":${usage}`}${extras.nvext === undefined ? '' : `,"nvext":${extras.nvext}`}}\n\n`
}

const NO_EXTRAS: ChunkExtras = {}

/**
 * Concatenates to one flat string. `+` creates a tree (rope) that is traversed again with every write: a quarter of
 * the CPU time of a token that arrives alone. `join` copies.
 */
function flat(...parts: readonly string[]): string {
  return parts.join('')
}

/** Shared by all streams, so that they stay in the CPU cache: without and with `usage`. */
const CONTENT_CLOSE = closings('"},"logprobs":null,"finish_reason":null}')
const TEXT_CLOSE = closings('","logprobs":null,"finish_reason":null}')

function closings(end: string): readonly [string, string] {
  return [flat(end, closing(NO_EXTRAS, false)), flat(end, closing(NO_EXTRAS, true))]
}

const CONTENT_KEY = '"content":"'

export class ChatChoiceChunks implements ChoiceChunks {
  readonly #includeUsage: boolean
  readonly #contentOpen: string
  readonly #contentClose: string
  #roleSent = false

  constructor(head: ReplyHead, options: ChunkOptions) {
    this.#includeUsage = options.includeUsage
    this.#contentOpen = flat(
      opening(head, 'chat.completion.chunk'),
      `{"index":${options.index},"delta":{${CONTENT_KEY}`,
    )
    this.#contentClose = CONTENT_CLOSE[this.#includeUsage ? 1 : 0]
  }

  get #start(): string {
    return this.#contentOpen.slice(0, -CONTENT_KEY.length)
  }

  content(text: string): string {
    if (!this.#roleSent) return this.contentWith(text, NO_EXTRAS)
    return this.#contentOpen + escapeJson(text) + this.#contentClose
  }

  /**
   * The openai client's stream helper counts log-probabilities twice if they come together with the role, so the role
   * is sent in an earlier chunk, as OpenAI does.
   */
  contentWith(text: string, extras: ChunkExtras): string {
    const isApart = !this.#roleSent && extras.logprobs !== undefined
    const role = isApart ? this.#chunk('"content":""', null, NO_EXTRAS) : ''
    return role + this.#chunk(`"content":${quoteJson(text)}`, null, extras)
  }

  reasoning(text: string, extras = NO_EXTRAS): string {
    return this.#chunk(`"reasoning_content":${quoteJson(text)}`, null, extras)
  }

  toolCalls(calls: string, extras = NO_EXTRAS): string {
    return this.#chunk(`"tool_calls":${calls}`, null, extras)
  }

  finish(reason: ClientFinishReason, extras: ChunkExtras = NO_EXTRAS): string {
    return this.#chunk('', reason, extras)
  }

  #chunk(delta: string, finish: ClientFinishReason | null, extras: ChunkExtras): string {
    let fields = delta
    if (!this.#roleSent) {
      this.#roleSent = true
      fields = delta === '' ? '"role":"assistant"' : `"role":"assistant",${delta}`
    }
    const reason = finish === null ? 'null' : `"${finish}"`
    return `${this.#start}${fields}},"logprobs":${extras.logprobs ?? 'null'},"finish_reason":${reason}${idsOfChoice(extras)}}${closing(extras, this.#includeUsage, idsOfPrompt(extras))}`
  }
}

export class CompletionChoiceChunks implements ChoiceChunks {
  readonly #start: string
  readonly #includeUsage: boolean
  readonly #textClose: string

  constructor(head: ReplyHead, options: ChunkOptions) {
    this.#start = flat(opening(head, 'text_completion'), `{"index":${options.index},"text":"`)
    this.#includeUsage = options.includeUsage
    this.#textClose = TEXT_CLOSE[this.#includeUsage ? 1 : 0]
  }

  content(text: string): string {
    return this.#start + escapeJson(text) + this.#textClose
  }

  contentWith(text: string, extras: ChunkExtras): string {
    return this.#chunk(text, null, extras)
  }

  /** A completion has no other field for reasoning than its text. */
  reasoning(text: string, extras = NO_EXTRAS): string {
    return this.contentWith(text, extras)
  }

  toolCalls(calls: string, extras = NO_EXTRAS): string {
    return this.contentWith(calls, extras)
  }

  finish(reason: ClientFinishReason, extras: ChunkExtras = NO_EXTRAS): string {
    return this.#chunk('', reason, extras)
  }

  #chunk(text: string, finish: ClientFinishReason | null, extras: ChunkExtras): string {
    const reason = finish === null ? 'null' : `"${finish}"`
    return `${this.#start}${escapeJson(text)}","logprobs":${extras.logprobs ?? 'null'},"finish_reason":${reason}${idsOfChoice(extras)}${idsOfPrompt(extras)}}${closing(extras, this.#includeUsage)}`
  }
}

/** The last chunk of a stream with `include_usage`: no choices, only the usage. */
export function usageEvent(
  head: ReplyHead,
  object: 'chat.completion.chunk' | 'text_completion',
  usage: ReplyUsage,
): string {
  return `${opening(head, object)}${closing({ usage: usageJson(usage) }, true)}`
}

/** A chunk without choices that only carries `nvext`: the reply to a query for workers. */
export function nvextEvent(
  head: ReplyHead,
  object: 'chat.completion.chunk' | 'text_completion',
  nvext: string,
): string {
  return `${opening(head, object)}${closing({ nvext }, false)}`
}

/** An annotation: an event name and a comment with the value as JSON, no data. */
export function annotationEvent(name: string, value: string): string {
  return `event: ${name}\n: ${value}\n\n`
}
