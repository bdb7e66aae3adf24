/**
 * Requests one answer of `baton chat`, streams it to the terminal and measures it.
 */
import { createParser } from 'eventsource-parser'
import { BatonError, printableLines } from '../../base/index.ts'
import { withQuotedWorkerIds } from '../../api/index.ts'
import { keyHeaders } from '../commands/ask-server.ts'
import { noServer } from '../commands/no-server.ts'
import { WordWrap } from './word-wrap.ts'

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ChatSettings {
  readonly url: string
  readonly model: string
  readonly maxTokens: number
  /** Null: the server's default. */
  readonly temperature: number | null
}

export interface ChatAnswer {
  readonly requestId: string | null
  readonly text: string
  readonly workers: Readonly<Record<string, unknown>> | null
  /**
   * Milliseconds from sending the question to the first piece of text, as this terminal saw it; null: there was
   * no text.
   */
  readonly ttftMs: number | null
  readonly durationMs: number
  readonly promptTokens: number
  readonly cachedTokens: number | null
  /**
   * As the server reports it; the number of received pieces when the answer was stopped or the server reports
   * no usage.
   */
  readonly completionTokens: number
}

/** The terminal that shows the answer. */
export interface Screen {
  readonly columns: number
  readonly hasColor: boolean
  write(text: string): void
}

interface StreamEvent {
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null
      readonly reasoning_content?: string | null
      /** The name in newer versions of vLLM, whose answers may be forwarded unchanged. */
      readonly reasoning?: string | null
    }
  }[]
  readonly nvext?: { readonly worker_id?: Readonly<Record<string, unknown>> }
  readonly usage?: {
    readonly prompt_tokens: number
    readonly completion_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
  } | null
  readonly error?: { readonly message: string }
}

const DIM = '\u001B[2m'
const PLAIN = '\u001B[0m'

/** Throws the server's error. An answer that the user stops is returned as far as it came. */
export async function askForAnswer(
  settings: ChatSettings,
  messages: readonly ChatMessage[],
  screen: Screen,
  signal: AbortSignal,
): Promise<ChatAnswer> {
  const startedMs = performance.now()
  const reply = await fetch(new URL('/v1/chat/completions', settings.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...keyHeaders() },
    body: JSON.stringify(bodyOf(settings, messages)),
    signal,
  }).catch((error: unknown) => {
    throw noServer(settings.url, error)
  })
  if (!reply.ok || reply.body === null) {
    const body = (await reply.json().catch(() => ({}))) as { error?: { message?: string } }
    const text = body.error?.message ?? `the server answered ${reply.status}`
    throw new BatonError('backend.unknown', text)
  }
  const shown = new ShownAnswer(screen, startedMs)
  await shown.read(reply.body, signal)
  return shown.result(reply.headers.get('x-request-id'))
}

function bodyOf(settings: ChatSettings, messages: readonly ChatMessage[]): object {
  const { model, maxTokens, temperature } = settings
  return {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: maxTokens,
    ...(temperature === null ? {} : { temperature }),
    // Only an operator's key may ask which worker answered, so the field is requested only when no key is used.
    ...('authorization' in keyHeaders() ? {} : { nvext: { extra_fields: ['worker_id'] } }),
  }
}

class ShownAnswer {
  readonly #screen: Screen
  readonly #startedMs: number
  readonly #wrap: WordWrap
  #text = ''
  #workers: ChatAnswer['workers'] = null
  #usage: StreamEvent['usage'] = null
  #pieces = 0
  #ttftMs: number | null = null
  #isThinking = false

  constructor(screen: Screen, startedMs: number) {
    this.#screen = screen
    this.#startedMs = startedMs
    this.#wrap = new WordWrap(screen.columns)
  }

  async read(body: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const parser = createParser({
      onEvent: ({ data }) => {
        if (data !== '[DONE]') this.#take(JSON.parse(withQuotedWorkerIds(data)) as StreamEvent)
      },
    })
    const decoder = new TextDecoder()
    try {
      for await (const bytes of body) parser.feed(decoder.decode(bytes, { stream: true }))
    } catch (error) {
      if (!signal.aborted) throw error
    }
    this.#screen.write(this.#wrap.end())
    this.#think(false)
    this.#screen.write(signal.aborted ? ' [stopped]\n' : '\n')
  }

  result(requestId: string | null): ChatAnswer {
    return {
      requestId,
      text: this.#text,
      workers: this.#workers,
      ttftMs: this.#ttftMs,
      durationMs: performance.now() - this.#startedMs,
      promptTokens: this.#usage?.prompt_tokens ?? 0,
      cachedTokens: this.#usage?.prompt_tokens_details?.cached_tokens ?? null,
      completionTokens: this.#usage?.completion_tokens ?? this.#pieces,
    }
  }

  #take({ error, nvext, usage, choices }: StreamEvent): void {
    if (error !== undefined) throw new BatonError('backend.unknown', error.message)
    this.#workers = nvext?.worker_id ?? this.#workers
    this.#usage = usage ?? this.#usage
    const delta = choices?.[0]?.delta
    const reasoning = delta?.reasoning_content ?? delta?.reasoning
    if (reasoning) {
      this.#think(true)
      this.#show(reasoning)
    }
    if (delta?.content) {
      this.#think(false)
      this.#text += delta.content
      this.#show(delta.content)
    }
  }

  #show(text: string): void {
    this.#pieces += 1
    this.#ttftMs ??= performance.now() - this.#startedMs
    // A model's output may contain anything; an escape sequence could take control of the terminal.
    this.#screen.write(this.#wrap.write(printableLines(text)))
  }

  /** Separates thinking from the answer: dimmed, or between markers where the terminal has no colours. */
  #think(isThinking: boolean): void {
    if (isThinking === this.#isThinking) return
    this.#isThinking = isThinking
    const rest = this.#wrap.end()
    // Some models think again after a part of the answer.
    const gap = this.#pieces === 0 ? '' : this.#wrap.write('\n\n')
    if (!this.#screen.hasColor) {
      this.#screen.write(`${rest}${gap}${isThinking ? '[thinking] ' : '[answer] '}`)
    } else {
      this.#screen.write(isThinking ? `${rest}${gap}${DIM}` : `${rest}${PLAIN}${gap}`)
    }
  }
}
