/** Requests to Baton or to an engine, for tests with real engines. */
import type { RunningServer } from '../running-server.ts'
import { ask } from './real-engine.ts'

export const STORY = 'Tell me a story about a brave fox named Mira who lives in the forest.'

/** Headers for a new connection: an engine may close a kept one at the moment at which a request is sent on it. */
export const FRESH = { connection: 'close' }
export const JSON_HEADERS = { 'content-type': 'application/json', ...FRESH }

export interface Reply {
  readonly id: string
  readonly choices: readonly {
    readonly message: { readonly content: string }
    readonly finish_reason: string
  }[]
  readonly usage: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
  }
}

export async function chat(url: string, fields: object = {}): Promise<Reply> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: JSON_HEADERS,
    body: JSON.stringify({
      model: 'storyteller',
      messages: [{ role: 'user', content: STORY }],
      max_tokens: 64,
      temperature: 0,
      ...fields,
    }),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${response.status} ${text}`)
  return JSON.parse(text) as Reply
}

/** Pieces of a streamed reply as they arrive. */
export async function* pieces(
  url: string,
  fields: object,
  signal?: AbortSignal,
): AsyncGenerator<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: JSON_HEADERS,
    body: JSON.stringify({
      model: 'storyteller',
      messages: [{ role: 'user', content: STORY }],
      temperature: 0,
      stream: true,
      ...fields,
    }),
    ...(signal === undefined ? {} : { signal }),
  })
  let text = ''
  for await (const bytes of response.body ?? []) {
    text += Buffer.from(bytes as Uint8Array).toString()
    const events = text.split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) {
      // An SSE comment: no data yet.
      if (event.startsWith(':')) continue
      const data = event.replace(/^data: /, '')
      if (data === '[DONE]') return
      const { choices } = JSON.parse(data) as {
        choices: readonly { readonly delta?: { readonly content?: string } }[]
      }
      const piece = choices[0]?.delta?.content ?? ''
      if (piece !== '') yield piece
    }
  }
}

export interface ModelHealth {
  readonly workers: readonly unknown[]
  readonly warnings: readonly string[]
  readonly self_check: readonly string[]
  readonly disaggregation: Readonly<Record<string, unknown>>
}

export async function modelsOf(server: RunningServer): Promise<readonly [ModelHealth]> {
  const { text } = await ask(`${server.url}/health`)
  return (JSON.parse(text) as { readonly models: readonly [ModelHealth] }).models
}

/** Cached tokens that the router predicted for a request. */
export async function forecastOf(server: RunningServer, replyId: string): Promise<number> {
  const { text } = await ask(`${server.url}/debug/requests/${replyId}`)
  const { decisions } = JSON.parse(text) as {
    readonly decisions: readonly { readonly chosen?: unknown; readonly candidates?: unknown }[]
  }
  const found = /"cachedTokens":(\d+)/.exec(JSON.stringify(decisions))?.[1]
  return Number(found)
}
