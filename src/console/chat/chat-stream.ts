/**
 * One streamed answer of `/v1/chat/completions`.
 */
import { ask, eventsOf, said } from '../data/server.ts'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ToolCall {
  readonly name: string
  readonly arguments: string
}

export interface ChatAnswer {
  readonly requestId: string
  readonly text: string
  readonly calls: readonly ToolCall[]
  readonly finish: string | null
  readonly promptTokens: number
  readonly cachedTokens: number | null
  readonly completionTokens: number
  /** As measured by this page. */
  readonly ttftMs: number | null
  readonly durationMs: number
}

export interface ChatSink {
  onText(text: string, isReasoning: boolean): void
}

interface Delta {
  readonly content?: string | null
  readonly reasoning_content?: string | null
  /** The name in newer versions of vLLM, whose answers may be forwarded unchanged. */
  readonly reasoning?: string | null
  readonly tool_calls?: readonly {
    readonly index: number
    readonly function?: { readonly name?: string; readonly arguments?: string }
  }[]
}

interface ChatEvent {
  readonly choices?: readonly {
    readonly delta?: Delta
    readonly finish_reason?: string | null
  }[]
  readonly usage?: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
  } | null
  readonly error?: { readonly message: string }
}

/** Throws the server's error message. */
export async function streamChat(
  body: Readonly<Record<string, unknown>>,
  sink: ChatSink,
  signal: AbortSignal,
): Promise<ChatAnswer> {
  const startedMs = performance.now()
  const response = await ask('/v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  })
  if (!response.ok) throw new Error(await said(response))
  const answer = new Collected(sink, startedMs)
  for await (const { data } of eventsOf(response)) {
    if (data !== '[DONE]' && data !== '') answer.take(JSON.parse(data) as ChatEvent)
  }
  return answer.result(response.headers.get('x-request-id') ?? '')
}

class Collected {
  readonly #sink: ChatSink
  readonly #startedMs: number
  readonly #calls: { name: string; arguments: string }[] = []
  #text = ''
  #finish: string | null = null
  #ttftMs: number | null = null
  #usage: NonNullable<ChatEvent['usage']> | null = null

  constructor(sink: ChatSink, startedMs: number) {
    this.#sink = sink
    this.#startedMs = startedMs
  }

  take({ choices, usage, error }: ChatEvent): void {
    if (error !== undefined) throw new Error(error.message)
    this.#usage = usage ?? this.#usage
    const [choice] = choices ?? []
    this.#finish = choice?.finish_reason ?? this.#finish
    if (choice?.delta !== undefined) this.#takeDelta(choice.delta)
  }

  #takeDelta(delta: Delta): void {
    const { content, tool_calls: calls } = delta
    const reasoning = delta.reasoning_content ?? delta.reasoning
    const hasOutput = Boolean(content) || Boolean(reasoning) || (calls?.length ?? 0) > 0
    if (hasOutput) this.#ttftMs ??= performance.now() - this.#startedMs
    if (reasoning) this.#sink.onText(reasoning, true)
    if (content) {
      this.#text += content
      this.#sink.onText(content, false)
    }
    for (const { index, function: part } of calls ?? []) {
      const call = (this.#calls[index] ??= { name: '', arguments: '' })
      call.name += part?.name ?? ''
      call.arguments += part?.arguments ?? ''
    }
  }

  result(requestId: string): ChatAnswer {
    return {
      requestId,
      text: this.#text,
      calls: this.#calls,
      finish: this.#finish,
      promptTokens: this.#usage?.prompt_tokens ?? 0,
      cachedTokens: this.#usage?.prompt_tokens_details?.cached_tokens ?? null,
      completionTokens: this.#usage?.completion_tokens ?? 0,
      ttftMs: this.#ttftMs,
      durationMs: performance.now() - this.#startedMs,
    }
  }
}
