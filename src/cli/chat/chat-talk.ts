/**
 * The state of a conversation and the commands that change it. Pure except for the functions that it is given,
 * so each command can be tested.
 */
import { BatonError } from '../../base/index.ts'
import type { ChatAnswer, ChatMessage, ChatSettings } from './chat-answer.ts'

const HELP = `/system [text]  show or set the system message; /system - removes it
/model [name]   list the models, or choose one
/temp [x]       set the temperature; 0 gives the same answer each time, /temp - restores the server's default
/retry          ask the last question again
/explain        show why the last answer ran on its workers
/worker         show the workers of the last answer
/stats          show the speed of the answers
/save <file>    save the conversation as JSON, or as Markdown if the name ends with .md
/new            start a new conversation
/quit           exit (or Ctrl-D); Ctrl-C stops an answer
A paste of several lines is one question.`

interface TalkPorts {
  print(text: string): void
  models(): Promise<readonly string[]>
  explain(requestId: string): Promise<string>
  save(file: string, content: string): void
}

export class Talk {
  settings: ChatSettings
  system: string | null
  messages: ChatMessage[] = []
  readonly answers: ChatAnswer[] = []
  readonly #ports: TalkPorts

  constructor(settings: ChatSettings, system: string | null, ports: TalkPorts) {
    this.settings = settings
    this.system = system
    this.#ports = ports
  }

  /** The messages that are sent for a question. */
  asked(question: string): ChatMessage[] {
    const first: ChatMessage[] =
      this.system === null ? [] : [{ role: 'system', content: this.system }]
    return [...first, ...this.messages, { role: 'user', content: question }]
  }

  answered(question: string, answer: ChatAnswer): void {
    this.answers.push(answer)
    this.messages.push({ role: 'user', content: question })
    this.messages.push({ role: 'assistant', content: answer.text })
  }

  /** Returns a question to ask, 'quit', or null when the command needs nothing more. */
  async command(line: string): Promise<{ readonly ask: string } | 'quit' | null> {
    const [name = '', ...words] = line.trim().split(/\s+/)
    const rest = line.trim().slice(name.length).trim()
    if (name === '/quit' || name === '/exit') return 'quit'
    if (name === '/retry') return this.#retry()
    const run = this.#commands[name]
    if (run === undefined) this.#ports.print(`unknown command ${name}\n${HELP}`)
    else await this.#safely(() => run(rest, words))
    return null
  }

  readonly #commands: Readonly<
    Record<string, (rest: string, words: readonly string[]) => void | Promise<void>>
  > = {
    '/help': () => this.#ports.print(HELP),
    '/new': () => {
      this.messages = []
    },
    '/system': (rest) => this.#setSystem(rest),
    '/model': (rest) => this.#setModel(rest),
    '/temp': (rest) => this.#setTemperature(rest),
    '/worker': () => this.#ports.print(workersText(this.answers.at(-1))),
    '/explain': () => this.#explain(),
    '/stats': () => this.#ports.print(statsText(this.answers)),
    '/save': (rest) => this.#save(rest),
  }

  /** Prints an error of a command; the conversation continues. */
  async #safely(run: () => void | Promise<void>): Promise<void> {
    try {
      await run()
    } catch (error) {
      this.#ports.print(`! ${BatonError.from(error).message}`)
    }
  }

  #retry(): { readonly ask: string } | null {
    const at = this.messages.findLastIndex(({ role }) => role === 'user')
    const question = this.messages[at]?.content
    if (question === undefined) {
      this.#ports.print('nothing has been asked yet')
      return null
    }
    this.messages = this.messages.slice(0, at)
    return { ask: question }
  }

  #setSystem(text: string): void {
    if (text !== '') this.system = text === '-' ? null : text
    this.#ports.print(this.system === null ? 'no system message' : `system: ${this.system}`)
  }

  async #setModel(name: string): Promise<void> {
    const names = await this.#ports.models()
    if (name !== '' && !names.includes(name)) {
      this.#ports.print(`no model ${name}; the server has: ${names.join(', ')}`)
      return
    }
    if (name !== '') this.settings = { ...this.settings, model: name }
    const { model } = this.settings
    this.#ports.print(names.map((each) => `${each === model ? '* ' : '  '}${each}`).join('\n'))
  }

  #setTemperature(text: string): void {
    const value = Number(text)
    if (text === '-') this.settings = { ...this.settings, temperature: null }
    else if (text !== '' && value >= 0 && value <= 2) {
      this.settings = { ...this.settings, temperature: value }
    } else if (text !== '') {
      this.#ports.print(`${text} is invalid: expected a number from 0 to 2, or -`)
      return
    }
    this.#ports.print(`temperature: ${this.settings.temperature ?? "the server's own"}`)
  }

  async #explain(): Promise<void> {
    const requestId = this.answers.at(-1)?.requestId
    this.#ports.print(requestId ? await this.#ports.explain(requestId) : 'no answer yet')
  }

  #save(file: string): void {
    if (file === '') {
      this.#ports.print('give a file name: /save talk.json')
      return
    }
    const all = this.asked('').slice(0, -1)
    const text = file.endsWith('.md')
      ? all.map(({ role, content }) => `**${role}**\n\n${content}\n`).join('\n')
      : `${JSON.stringify({ model: this.settings.model, messages: all }, null, 2)}\n`
    this.#ports.save(file, text)
    this.#ports.print(`${all.length} messages are in ${file}`)
  }
}

/** The statistics line below an answer. */
export function speedText(answer: ChatAnswer): string {
  const { ttftMs, completionTokens, promptTokens, cachedTokens } = answer
  const speed = tokensPerSecond(answer)
  const parts = [
    `${completionTokens} tokens`,
    ttftMs === null ? '' : `TTFT ${ttftMs.toFixed(0)} ms`,
    speed === null ? '' : `${speed.toFixed(0)} tokens/s`,
    cachedTokens === null || promptTokens === 0
      ? ''
      : `${cachedTokens} of ${promptTokens} prompt tokens reused`,
  ]
  return parts.filter((part) => part !== '').join(', ')
}

/** Tokens per second after the first token; null: too few tokens to measure. */
function tokensPerSecond({ ttftMs, durationMs, completionTokens }: ChatAnswer): number | null {
  const seconds = ttftMs === null ? 0 : (durationMs - ttftMs) / 1000
  return completionTokens > 1 && seconds > 0 ? (completionTokens - 1) / seconds : null
}

function statsText(answers: readonly ChatAnswer[]): string {
  if (answers.length === 0) return 'no answer yet'
  const lines = answers.map((answer, i) => `${i + 1}. ${speedText(answer)}`)
  const tokens = answers.reduce((sum, { completionTokens }) => sum + completionTokens, 0)
  const ttfts = answers.flatMap(({ ttftMs }) => (ttftMs === null ? [] : [ttftMs]))
  const mean = ttfts.reduce((sum, ms) => sum + ms, 0) / Math.max(ttfts.length, 1)
  return [...lines, `${tokens} tokens in all, mean TTFT ${mean.toFixed(0)} ms`].join('\n')
}

function workersText(answer: ChatAnswer | undefined): string {
  if (answer?.workers == null) return 'no answer yet'
  return Object.entries(answer.workers)
    .map(([name, id]) => `${name.replaceAll('_', ' ')}: ${String(id)}`)
    .join('\n')
}
