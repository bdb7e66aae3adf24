/**
 * Sends one streamed completion to an OpenAI endpoint and measures it as a client sees it: when text arrived,
 * and the usage that the server reports.
 */
import { createParser } from 'eventsource-parser'
import { BatonError, isRecord } from '../../base/index.ts'
import { failureCode } from '../commands/no-server.ts'
import { errorOf, SILENCE_SECONDS, SilenceTimer, startStream } from './live-connection.ts'
import type { LiveAsk, LiveTarget } from './live-connection.ts'

interface LiveRequest extends LiveAsk {
  /** Milliseconds to wait before each further read, to imitate a slow client. */
  readonly pauseMs?: number
  /** `tokens`: number of tokens in the event as the server counts them; 1 when it does not report it. */
  readonly onText?: (atMs: number, tokens: number) => void
  readonly signal?: AbortSignal
}

interface LiveReply {
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
  const silence = new SilenceTimer(target.silenceMs ?? 1000 * SILENCE_SECONDS)
  try {
    return await streamed(target, request, silence)
  } catch (thrown) {
    if (silence.signal.aborted && request.signal?.aborted !== true) throw silence.error
    throw thrown
  } finally {
    silence.stop()
  }
}

async function streamed(
  target: LiveTarget,
  request: LiveRequest,
  silence: SilenceTimer,
): Promise<LiveReply> {
  const { pauseMs = 0, onText, signal } = request
  const ending = AbortSignal.any([silence.signal, ...(signal === undefined ? [] : [signal])])
  const response = await startStream(target, request, ending)
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
      const event = eventOf(data)
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
    silence.heard()
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

function eventOf(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch (cause) {
    const text = `an event of the answer is not JSON: ${data.slice(0, 60)}`
    throw new BatonError('backend.unknown', text, { cause })
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

function hasText(event: Readonly<Record<string, unknown>>): boolean {
  const choices = event['choices']
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isRecord(choice)) return false
  if (!isRecord(choice['delta'])) return isText(choice['text'])
  const { content, reasoning_content: reasoning, reasoning: other } = choice['delta']
  return [content, reasoning, other].some(isText)
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function numberIn(record: Readonly<Record<string, unknown>>, key: string): number {
  const value = record[key]
  return typeof value === 'number' ? value : 0
}
