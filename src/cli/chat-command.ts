/**
 * `baton chat`: a talk with a running server in the terminal.
 */
import { createInterface } from 'node:readline/promises'
import { createParser } from 'eventsource-parser'
import { request } from 'undici'
import { BatonError } from '../base/index.ts'
import { askServer, noServer, quotedWorkerIds, serverUrl } from './ask-server.ts'

interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

interface ChatOptions {
  readonly url: string
  readonly model: string
  readonly system: string | null
  readonly maxTokens: number
  /** Null: the server's own. */
  readonly temperature: number | null
}

interface Answer {
  readonly text: string
  readonly workers: Readonly<Record<string, unknown>> | null
}

const HELP = `/worker  which workers gave the last answer
/new     forget the talk so far
/quit    leave (or Ctrl-D); Ctrl-C stops an answer`

export async function runChat(flags: Readonly<Record<string, unknown>>): Promise<number> {
  const url = serverUrl(flags['url'])
  const options: ChatOptions = {
    url,
    model: typeof flags['model'] === 'string' ? flags['model'] : await firstModel(url),
    system: typeof flags['system'] === 'string' ? flags['system'] : null,
    maxTokens: Number(flags['maxTokens']),
    temperature: flags['temperature'] === undefined ? null : Number(flags['temperature']),
  }
  if (!Number.isInteger(options.maxTokens) || options.maxTokens < 1) {
    throw new BatonError(
      'config.invalid',
      `--max-tokens: ${String(flags['maxTokens'])} must be a whole number above 0`,
    )
  }
  if (Number.isNaN(options.temperature)) {
    const given = String(flags['temperature'])
    throw new BatonError('config.invalid', `--temperature: ${given} must be a number`)
  }
  console.log(`Talking to ${options.model} at ${url}. /help lists the commands.`)
  await talk(options)
  return 0
}

async function talk(options: ChatOptions): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout, prompt: '> ' })
  const start: Message[] =
    options.system === null ? [] : [{ role: 'system', content: options.system }]
  let messages = start
  let last: Answer | null = null
  let stopAnswer: AbortController | null = null
  terminal.on('SIGINT', () => {
    if (stopAnswer === null) terminal.close()
    else stopAnswer.abort()
  })
  // The end of the input closes the terminal while lines are still to be answered.
  let isOpen = true
  terminal.once('close', () => {
    isOpen = false
  })
  terminal.prompt()
  for await (const line of terminal) {
    const words = line.trim()
    if (words === '/quit' || words === '/exit') break
    if (words === '/help') console.log(HELP)
    else if (words === '/worker') console.log(workersText(last))
    else if (words === '/new') messages = start
    else if (words.startsWith('/')) console.log(`unknown command ${words}\n${HELP}`)
    else if (words !== '') {
      stopAnswer = new AbortController()
      const asked: Message[] = [...messages, { role: 'user', content: words }]
      try {
        last = await ask(options, asked, stopAnswer.signal)
        messages = [...asked, { role: 'assistant', content: last.text }]
      } catch (error) {
        const why = stopAnswer.signal.aborted ? '[stopped]' : `! ${BatonError.from(error).message}`
        console.log(`\n${why}`)
      }
      stopAnswer = null
    }
    if (isOpen) terminal.prompt()
  }
  terminal.close()
}

function workersText(answer: Answer | null): string {
  if (answer?.workers == null) return 'no answer yet'
  return Object.entries(answer.workers)
    .map(([name, id]) => `${name.replaceAll('_', ' ')}: ${String(id)}`)
    .join('\n')
}

async function ask(
  options: ChatOptions,
  messages: readonly Message[],
  signal: AbortSignal,
): Promise<Answer> {
  const reply = await request(new URL('/v1/chat/completions', options.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: options.model,
      messages,
      stream: true,
      max_tokens: options.maxTokens,
      ...(options.temperature === null ? {} : { temperature: options.temperature }),
      nvext: { extra_fields: ['worker_id'] },
    }),
    signal,
    bodyTimeout: 0,
  }).catch((error: unknown) => {
    throw noServer(options.url, error)
  })
  if (reply.statusCode !== 200) {
    const body = (await reply.body.json()) as { error?: { message?: string } }
    throw new BatonError(
      'backend.unknown',
      body.error?.message ?? `the server answered ${reply.statusCode}`,
    )
  }
  return await readAnswer(reply.body, signal)
}

interface StreamEvent {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string; readonly reasoning_content?: string }
  }[]
  readonly nvext?: { readonly worker_id?: Readonly<Record<string, unknown>> }
  readonly error?: { readonly message: string }
}

async function readAnswer(body: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Answer> {
  let text = ''
  let workers: Answer['workers'] = null
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === '[DONE]') return
      const event = JSON.parse(quotedWorkerIds(data)) as StreamEvent
      if (event.error !== undefined) throw new BatonError('backend.unknown', event.error.message)
      workers = event.nvext?.worker_id ?? workers
      const delta = event.choices?.[0]?.delta
      if (delta?.reasoning_content !== undefined) process.stdout.write(delta.reasoning_content)
      if (typeof delta?.content === 'string') {
        text += delta.content
        process.stdout.write(delta.content)
      }
    },
  })
  const decoder = new TextDecoder()
  try {
    for await (const bytes of body) parser.feed(decoder.decode(bytes, { stream: true }))
  } catch (error) {
    if (!signal.aborted) throw error
    process.stdout.write(' [stopped]')
  }
  process.stdout.write('\n')
  return { text, workers }
}

async function firstModel(url: string): Promise<string> {
  const { body } = await askServer(url, '/v1/models')
  const first = (body as { readonly data?: readonly { readonly id: string }[] }).data?.[0]?.id
  if (first === undefined)
    throw new BatonError('request.not_found', `the server at ${url} has no model yet`)
  return first
}
