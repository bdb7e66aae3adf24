/**
 * The HTTP side of a load on a live server: sends requests, drops fields that the server refuses, ends requests that
 * get no data, and turns refusals into errors with a code.
 */
import { BatonError, ERROR_CODES, isRecord } from '../../base/index.ts'
import type { ErrorCode } from '../../base/index.ts'
import { failureCode, failureName } from '../commands/no-server.ts'
import { limitSentence } from '../guard/last-words.ts'

export interface LiveTarget {
  readonly url: string
  readonly model: string
  /** Sent in the header `authorization`. */
  readonly apiKey?: string
  /** Prompts are sent to /v1/chat/completions, as text. Default: /v1/completions. */
  readonly isChat?: boolean
  /** A request without data for this time fails. Default: 240 s. */
  readonly silenceMs?: number
}

/** What one request asks for. */
export interface LiveAsk {
  /** Token ids, or text for servers that accept no token ids. */
  readonly prompt: readonly number[] | string
  readonly maxTokens: number
  /** Sent in a header that Baton and vLLM read, and that other servers ignore. */
  readonly sessionId?: string
  readonly priority?: number
}

/** `fetch` itself gives up after 300 s without data, with a message that helps nobody. */
export const SILENCE_SECONDS_MAX = 290
export const SILENCE_SECONDS = 240
const MODELS_MS = 15_000

/** Fires when no data has come for a time. */
export class SilenceTimer {
  readonly #ms: number
  readonly #controller = new AbortController()
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number) {
    this.#ms = ms
    this.heard()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get error(): BatonError {
    return new BatonError('backend.response_timeout', `no data for ${this.#ms / 1000} s`)
  }

  heard(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#controller.abort(), this.#ms)
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}

/** The name of the first model that the server lists. */
export async function firstLiveModel(url: string, apiKey?: string): Promise<string> {
  const silence = new SilenceTimer(MODELS_MS)
  try {
    const { signal } = silence
    const response = await reach(`${url}/v1/models`, { headers: headersOf(apiKey), signal })
    const body = parsed(await response.text())
    if (!response.ok) {
      const { code, message } = errorOf(response.status, body)
      throw new BatonError(code, `${url}/v1/models is refused: ${message}`)
    }
    const list = isRecord(body) && Array.isArray(body['data']) ? body['data'] : []
    const id: unknown = isRecord(list[0]) ? list[0]['id'] : undefined
    if (typeof id === 'string') return id
  } catch (thrown) {
    if (!silence.signal.aborted) throw thrown
    throw new BatonError('transport.cannot_connect', `${url}/v1/models: ${silence.error.message}`)
  } finally {
    silence.stop()
  }
  throw new BatonError('request.not_found', `${url} lists no model: name one with --model`)
}

/** Fields that some servers do not know, in the order in which they are looked for in a refusal. */
const OPTIONAL_FIELDS = [
  'continuous_usage_stats',
  'stream_options',
  'ignore_eos',
  'temperature',
] as const
type OptionalField = (typeof OPTIONAL_FIELDS)[number]

/** By server: the fields that it has refused. */
const refused = new Map<string, Set<OptionalField>>()

/**
 * Starts a streamed completion. An event may contain several tokens, and only usage in every event tells how many:
 * Baton and vLLM report it on request.
 */
export async function startStream(
  target: LiveTarget,
  { prompt, maxTokens, sessionId, priority }: LiveAsk,
  signal: AbortSignal,
): Promise<Response> {
  const path = target.isChat === true ? '/v1/chat/completions' : '/v1/completions'
  const without = refused.get(target.url + path) ?? new Set()
  refused.set(target.url + path, without)
  const asked =
    target.isChat === true ? { messages: [{ role: 'user', content: prompt }] } : { prompt }
  for (;;) {
    const usage = without.has('continuous_usage_stats') ? {} : { continuous_usage_stats: true }
    const body = {
      model: target.model,
      ...asked,
      max_tokens: maxTokens,
      stream: true,
      ...(without.has('ignore_eos') ? {} : { ignore_eos: true }),
      ...(without.has('temperature') ? {} : { temperature: 0 }),
      ...(without.has('stream_options')
        ? {}
        : { stream_options: { include_usage: true, ...usage } }),
    }
    const response = await reach(target.url + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...headersOf(target.apiKey),
        ...(sessionId === undefined ? {} : { 'x-session-id': sessionId }),
        ...(priority === undefined ? {} : { 'x-dynamo-request-priority': String(priority) }),
      },
      body: JSON.stringify(body),
      signal,
    })
    if (response.ok) return response
    const text = await response.text()
    const isOfBody = response.status === 400 || response.status === 422
    const odd = OPTIONAL_FIELDS.find((field) => text.includes(field) && !without.has(field))
    if (!isOfBody || odd === undefined) throw errorOf(response.status, parsed(text))
    without.add(odd)
  }
}

/**
 * A server may close a keep-alive connection at the moment it is used again (llama-server closes after each
 * answer).
 */
const STALE = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])
const TRIES = 8

async function reach(url: string, init: RequestInit): Promise<Response> {
  for (let left = TRIES - 1; ; left--)
    try {
      return await fetch(url, init)
    } catch (cause) {
      if (init.signal?.aborted === true)
        throw new BatonError('request.cancelled', 'left', { cause })
      const code = failureCode(cause)
      if (left > 0 && STALE.has(code)) {
        // Lets the event loop see that other idle connections were closed.
        await new Promise((resolve) => setImmediate(resolve))
        continue
      }
      const text = limitSentence(cause) ?? `no server answers at ${url} (${failureName(cause)})`
      throw new BatonError('transport.cannot_connect', text, { cause })
    }
}

/** Not JSON: for example the error page of a proxy. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const MESSAGE_MAX = 300

/** `answer`: the body of a refusal, or an event with an error, in one of the forms that servers use. */
export function errorOf(status: number, answer: unknown): BatonError {
  const body = isRecord(answer) ? answer : {}
  const error = isRecord(body['error']) ? body['error'] : body
  const said = [error['message'], body['error'], body['detail']].find(
    (text) => typeof text === 'string' && text !== '',
  )
  const code = error['code']
  const message = typeof said === 'string' ? said.slice(0, MESSAGE_MAX) : `HTTP ${status}`
  return new BatonError(isErrorCode(code) ? code : codeOf(status), message)
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERROR_CODES, code)
}

const CODES: Readonly<Record<number, ErrorCode>> = {
  401: 'request.unauthenticated',
  403: 'request.permission_denied',
  404: 'request.not_found',
  413: 'request.payload_too_large',
  429: 'capacity.exhausted',
  503: 'capacity.exhausted',
}

function codeOf(status: number): ErrorCode {
  return CODES[status] ?? (status < 500 ? 'request.invalid_argument' : 'backend.unknown')
}

function headersOf(apiKey: string | undefined): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
}
