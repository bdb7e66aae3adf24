/**
 * The tokenizer of a server over its routes: text to ids with the bytes of each, ids to text.
 *
 * llama-server: `/tokenize` with pieces, `/detokenize`. vLLM: `/tokenize` with the names of its vocabulary,
 * `/detokenize`; the form of its token names comes from `/tokenizer_info`, which has to be enabled.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { askJson } from '../client/fetch-json.ts'
import type { UpstreamClient } from '../client/upstream-client.ts'
import { bytesOfName, isByteAlphabet } from './token-names.ts'

const DEADLINE_MS = 10_000

export interface RemoteToken {
  readonly id: number
  /** Null: the server does not report them. */
  readonly bytes: Uint8Array | null
}

export interface RemoteEncodeOptions {
  /** True: control tokens in the text become their ids. A server may support only that. */
  readonly special: boolean
  readonly addBos: boolean
}

export interface RemoteSource {
  /** Rejects with a typed error when the server cannot answer. */
  encode(text: string, options: RemoteEncodeOptions): Promise<readonly RemoteToken[]>
  /** Control tokens by name. */
  decode(ids: readonly number[]): Promise<string>
  /** True when text can be encoded without recognising control tokens. */
  readonly knowsPlainText: boolean
}

export class LlamaServerSource implements RemoteSource {
  readonly knowsPlainText = true
  readonly #client: UpstreamClient

  constructor(client: UpstreamClient) {
    this.#client = client
  }

  async encode(
    content: string,
    { special, addBos }: RemoteEncodeOptions,
  ): Promise<readonly RemoteToken[]> {
    const body = { content, add_special: addBos, parse_special: special, with_pieces: true }
    const answer = await askJson(this.#client, '/tokenize', { deadlineMs: DEADLINE_MS, body })
    return tokensOf(answer, (token) => {
      const { id, piece } = isRecord(token) ? token : {}
      if (typeof id !== 'number') return null
      if (typeof piece === 'string') return { id, bytes: encoder.encode(piece) }
      return { id, bytes: Array.isArray(piece) ? Uint8Array.from(piece as number[]) : null }
    })
  }

  async decode(tokens: readonly number[]): Promise<string> {
    const body = { tokens }
    const answer = await askJson(this.#client, '/detokenize', { deadlineMs: DEADLINE_MS, body })
    return textOf(isRecord(answer) ? answer['content'] : null)
  }
}

export class VllmSource implements RemoteSource {
  readonly knowsPlainText = false
  readonly #client: UpstreamClient
  /** Null: not known yet. */
  #isByteLevel: boolean | null = null

  constructor(client: UpstreamClient) {
    this.#client = client
  }

  async encode(prompt: string, { addBos }: RemoteEncodeOptions): Promise<readonly RemoteToken[]> {
    const body = { prompt, add_special_tokens: addBos, return_token_strs: true }
    const answer = await askJson(this.#client, '/tokenize', { deadlineMs: DEADLINE_MS, body })
    const names = namesIn(answer)
    this.#isByteLevel ??= /[ \n]/.test(prompt) ? isByteAlphabet(names) : null
    const isByteLevel = this.#isByteLevel
    return tokensOf(answer, (id, index) => {
      const name = names[index]
      if (typeof id !== 'number') return null
      const isKnown = name !== undefined && isByteLevel !== null
      return { id, bytes: isKnown ? bytesOfName(name, isByteLevel) : null }
    })
  }

  async decode(tokens: readonly number[]): Promise<string> {
    const body = { tokens }
    const answer = await askJson(this.#client, '/detokenize', { deadlineMs: DEADLINE_MS, body })
    return textOf(isRecord(answer) ? answer['prompt'] : null)
  }
}

const encoder = new TextEncoder()

function namesIn(answer: unknown): readonly string[] {
  const names: unknown = isRecord(answer) ? answer['token_strs'] : null
  return Array.isArray(names) ? names.map(String) : []
}

function tokensOf(
  answer: unknown,
  read: (token: unknown, index: number) => RemoteToken | null,
): readonly RemoteToken[] {
  const list: unknown = isRecord(answer) ? answer['tokens'] : null
  const tokens = Array.isArray(list) ? list.map(read) : [null]
  return tokens.map((token) => {
    if (token !== null) return token
    throw new BatonError(
      'backend.worker_unavailable',
      'the engine does not report the tokens of a text',
      {
        data: { stage: 'tokenize' },
      },
    )
  })
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  throw new BatonError(
    'backend.worker_unavailable',
    'the engine does not report the text of tokens',
    {
      data: { stage: 'tokenize' },
    },
  )
}
