/**
 * The playground: a conversation with a model. Each answer shows which workers computed prompt and output, how much
 * was cached, and the speed.
 */
import type { LoggedRequest } from '../../frontend/index.ts'
import { h } from '../data/dom.ts'
import { ms, percent, shortId } from '../data/format.ts'
import { askJson } from '../data/server.ts'
import type { Store } from '../data/store.ts'
import { ChatSettings } from './chat-settings.ts'
import { streamChat } from './chat-stream.ts'
import type { ChatAnswer, ChatMessage } from './chat-stream.ts'

const EXAMPLES = [
  'Tell me a story about a brave fox named Mira who lives in the forest.',
  'Tom has a red kite and lives in the castle. Where does Tom live?',
  'As JSON: name Mira, age 7, color red',
]

export class ChatPage {
  readonly element = h('section', { 'aria-label': 'Chat' })
  readonly #store: Store
  readonly #settings = new ChatSettings()
  readonly #talk = h('div', { class: 'talk', role: 'log', 'aria-label': 'Conversation' })
  readonly #question = h('textarea', {
    rows: 2,
    'aria-label': 'Your message',
    placeholder: 'Ask something. Enter sends, Shift+Enter makes a new line.',
  })
  readonly #send = h('button', { type: 'submit' }, 'Send')
  #messages: ChatMessage[] = []
  #running: AbortController | null = null

  constructor(store: Store) {
    this.#store = store
    const form = h(
      'form',
      { class: 'question', submit: (event) => this.#submit(event) },
      this.#question,
      h(
        'div',
        {},
        this.#send,
        h(
          'button',
          { type: 'button', class: 'quiet', click: () => this.#restart() },
          'New conversation',
        ),
      ),
    )
    this.#question.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault()
        form.requestSubmit()
      }
    })
    this.#restart()
    this.element.append(
      h('h1', {}, 'Chat'),
      h('div', { class: 'chat' }, h('div', {}, this.#talk, form), this.#settings.element),
    )
  }

  update(): void {
    this.#settings.showModels(this.#store.fleet?.models.map(({ name }) => name) ?? [])
  }

  #restart(): void {
    this.#running?.abort()
    this.#messages = []
    this.#talk.replaceChildren(
      h(
        'p',
        { class: 'examples' },
        'For example: ',
        ...EXAMPLES.map((text) =>
          h('button', { type: 'button', class: 'quiet', click: () => this.#fill(text) }, text),
        ),
      ),
    )
  }

  #fill(text: string): void {
    this.#question.value = text
    this.#question.focus()
  }

  #submit(event: Event): void {
    event.preventDefault()
    if (this.#running !== null) {
      this.#running.abort()
      return
    }
    const text = this.#question.value.trim()
    if (text === '') return
    this.#question.value = ''
    void this.#ask(text)
  }

  async #ask(text: string): Promise<void> {
    const answer = h('div', { class: 'text' })
    const about = h('p', { class: 'about' }, 'waiting for the first token')
    this.#talk.querySelector('.examples')?.remove()
    this.#talk.append(
      h('article', { class: 'user' }, h('div', { class: 'text' }, text)),
      h('article', { class: 'assistant' }, answer, about),
    )
    const running = new AbortController()
    this.#running = running
    this.#send.textContent = 'Stop'
    // A screen reader reads the answer when it is complete, not word by word.
    this.#talk.setAttribute('aria-busy', 'true')
    try {
      const { system } = this.#settings
      const asked: ChatMessage[] = [...this.#messages, { role: 'user', content: text }]
      const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }]
      const body = { ...this.#settings.fields(), messages: [...first, ...asked] }
      const sink = { onText: (part: string, thought: boolean) => this.#show(answer, part, thought) }
      const result = await streamChat(body, sink, running.signal)
      this.#messages = [...asked, { role: 'assistant', content: result.text }]
      for (const call of result.calls) {
        answer.append(h('pre', { class: 'call' }, `${call.name}(${call.arguments})`))
      }
      about.replaceChildren(...(await aboutAnswer(result)))
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      about.replaceChildren(running.signal.aborted ? 'stopped' : `failed: ${why}`)
      about.className = running.signal.aborted ? 'about' : 'about failed'
    } finally {
      this.#running = null
      this.#send.textContent = 'Send'
      this.#talk.removeAttribute('aria-busy')
    }
  }

  #show(answer: HTMLElement, part: string, isThought: boolean): void {
    const kind = isThought ? 'thought' : 'said'
    const last = answer.lastElementChild
    if (last?.className === kind) last.append(part)
    else answer.append(h('span', { class: kind }, part))
    answer.scrollIntoView({ block: 'nearest' })
  }
}

async function aboutAnswer(answer: ChatAnswer): Promise<(Node | string)[]> {
  const { requestId, ttftMs, durationMs, completionTokens, promptTokens, cachedTokens } = answer
  const seconds = (durationMs - (ttftMs ?? 0)) / 1000
  const speed =
    completionTokens > 1 && seconds > 0
      ? `, ${((completionTokens - 1) / seconds).toFixed(0)} tokens/s`
      : ''
  const reused =
    cachedTokens === null
      ? ''
      : `, ${cachedTokens} of ${promptTokens} prompt tokens (${percent(cachedTokens, promptTokens)}) reused`
  const how = answer.finish === 'length' ? ', cut by max tokens' : ''
  return [
    await whoAnswered(requestId),
    `TTFT ${ms(ttftMs)}${speed}, ${completionTokens} tokens${reused}${how}. `,
    h('a', { href: `#/requests/${encodeURIComponent(requestId)}` }, 'Phases and decision'),
  ]
}

/** The workers of prompt and output; empty for a key that may not see them. */
async function whoAnswered(requestId: string): Promise<string> {
  try {
    const path = `/debug/requests/${encodeURIComponent(requestId)}`
    const { request } = await askJson<{ request?: LoggedRequest }>(path)
    const routed = (request?.phases ?? []).filter(({ kind }) => kind === 'routed')
    const of = (wanted: boolean): string | undefined =>
      routed.findLast(({ phase }) => (phase === 'prefill') === wanted)?.workerId
    const [reader, writer] = [of(true), of(false)]
    if (writer === undefined) return ''
    return reader === undefined
      ? `Worker ${shortId(writer)}. `
      : `Prompt computed by ${shortId(reader)}, output by ${shortId(writer)}. `
  } catch {
    return ''
  }
}
