/**
 * Sends one streamed completion to an OpenAI endpoint and measures it as a client sees it: when text arrived,
 * and the usage that the server reports.
 */
import { createParser } from 'eventsource-parser'
import { BatonError, ERROR_CODES, isRecord } from '../../base/index.ts'
import type { ErrorCode } from '../../base/index.ts'
import { failureCode } from '../commands/no-server.ts'

export interface LiveTarget {
  readonly url: string
  readonly model: string
  /** Sent in the header `authorization`. */
  readonly apiKey?: string
}

export interface LiveRequest {
  /** Token ids, or text for servers that accept no token ids. */
  readonly prompt: readonly number[] | string
  readonly maxTokens: number
  /** Milliseconds to wait before each further read, to imitate a slow client. */
  readonly pauseMs?: number
  /** `tokens`: number of tokens in the event as the server counts them; 1 when it does not report it. */
  readonly onText?: (atMs: number, tokens: number) => void
  readonly signal?: AbortSignal
}

export interface LiveReply {
  readonly firstMs: number
  readonly lastMs: number
  /** Number of events that contained text. */
  readonly events: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number
}

/** Rejects with a BatonError, whose code is the server's when it is one of Baton's codes. */
export async function askLive(target: LiveTarget, request: LiveRequest): Promise<LiveReply> {
  const { prompt, maxTokens, pauseMs = 0, onText, signal } = request
  const response = await startStream(
    target,
    { prompt, max_tokens: maxTokens, stream: true, ignore_eos: true, temperature: 0 },
    signal,
  )
  const seen = { firstMs: NaN, lastMs: NaN, events: 0 }
  let counted = 0
  let usage: Readonly<Record<string, unknown>> = {}
  let failure: BatonError | null = null
  let isDone = false
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') {
        isDone = true
        return
      }
      const event: unknown = JSON.parse(data)
      if (!isRecord(event)) return
      if (isRecord(event['error'])) failure = errorOf(500, event)
      if (isRecord(event['usage'])) usage = event['usage']
      if (!hasText(event)) return
      const nowMs = performance.now()
      if (seen.events === 0) seen.firstMs = nowMs
      seen.lastMs = nowMs
      seen.events += 1
      const soFar = numberIn(usage, 'completion_tokens') || counted + 1
      onText?.(nowMs, Math.max(1, soFar - counted))
      counted = Math.max(soFar, counted + 1)
    },
  })
  const decoder = new TextDecoder()
  for await (const bytes of piecesOf(response)) {
    parser.feed(decoder.decode(bytes, { stream: true }))
    if (signal?.aborted === true)
      throw new BatonError('request.cancelled', 'the client disconnected')
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
  if (failure !== null) throw failure as BatonError
  if (!isDone) throw new BatonError('backend.stream_incomplete', 'the answer ended without [DONE]')
  const details = usage['prompt_tokens_details']
  return {
    ...seen,
    promptTokens: numberIn(usage, 'prompt_tokens'),
    completionTokens: numberIn(usage, 'completion_tokens') || seen.events,
    cachedTokens: isRecord(details) ? numberIn(details, 'cached_tokens') : 0,
  }
}

async function* piecesOf(response: Response): AsyncGenerator<Uint8Array> {
  try {
    for await (const bytes of response.body ?? []) yield bytes as Uint8Array
  } catch (cause) {
    const text = `the connection was lost during the answer (${failureCode(cause)})`
    throw new BatonError('backend.stream_incomplete', text, { cause })
  }
}

/** The name of the first model that the server lists. */
export async function firstLiveModel(url: string, apiKey?: string): Promise<string> {
  const response = await reach(`${url}/v1/models`, { headers: headersOf(apiKey) })
  const body: unknown = await response.json().catch(() => null)
  const list = isRecord(body) && Array.isArray(body['data']) ? body['data'] : []
  const id: unknown = isRecord(list[0]) ? list[0]['id'] : undefined
  if (typeof id === 'string') return id
  throw new BatonError('request.not_found', `${url} lists no model: name one with --model`)
}

/** Servers that refuse to report usage in every event. */
const countOnlyAtTheEnd = new Set<string>()

/**
 * An event may contain several tokens, and only usage in every event tells how many. Baton and vLLM report it
 * on request.
 */
async function startStream(
  target: LiveTarget,
  body: Readonly<Record<string, unknown>>,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const atTheEnd = { ...body, stream_options: { include_usage: true } }
  if (countOnlyAtTheEnd.has(target.url)) return await post(target, atTheEnd, signal)
  const always = { include_usage: true, continuous_usage_stats: true }
  try {
    return await post(target, { ...body, stream_options: always }, signal)
  } catch (thrown) {
    const isRefused = thrown instanceof BatonError && thrown.message.includes('continuous_usage')
    if (!isRefused) throw thrown
    countOnlyAtTheEnd.add(target.url)
    return await post(target, atTheEnd, signal)
  }
}

async function post(
  { url, model, apiKey }: LiveTarget,
  body: Readonly<Record<string, unknown>>,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const response = await reach(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headersOf(apiKey) },
    body: JSON.stringify({ model, ...body }),
    ...(signal === undefined ? {} : { signal }),
  })
  if (response.ok) return response
  const text = await response.text()
  let answer: unknown = text
  try {
    answer = JSON.parse(text)
  } catch {
    // Not JSON, for example the error page of a proxy.
  }
  throw errorOf(response.status, answer)
}

/**
 * A server may close a keep-alive connection at the moment it is used again (llama-server closes after each
 * answer).
 */
const STALE = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])
const TRIES = 8

/** The message of the innermost cause, for an error without a code. */
function innermost(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : innermost(error.cause)
}

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
      const text = `no server answers at ${url} (${/^[A-Z_0-9]+$/.test(code) ? code : innermost(cause)})`
      throw new BatonError('transport.cannot_connect', text, { cause })
    }
}

function errorOf(status: number, answer: unknown): BatonError {
  const error = isRecord(answer) && isRecord(answer['error']) ? answer['error'] : {}
  const message = typeof error['message'] === 'string' ? error['message'] : `HTTP ${status}`
  const code = error['code']
  return new BatonError(isErrorCode(code) ? code : codeOf(status), message.slice(0, 300))
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERROR_CODES, code)
}

function codeOf(status: number): ErrorCode {
  if (status === 404) return 'request.not_found'
  if (status === 429 || status === 503) return 'capacity.exhausted'
  return status < 500 ? 'request.invalid_argument' : 'backend.unknown'
}

function headersOf(apiKey: string | undefined): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
}

function hasText(event: Readonly<Record<string, unknown>>): boolean {
  const choices = event['choices']
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  return isRecord(choice) && typeof choice['text'] === 'string' && choice['text'] !== ''
}

function numberIn(record: Readonly<Record<string, unknown>>, key: string): number {
  const value = record[key]
  return typeof value === 'number' ? value : 0
}
