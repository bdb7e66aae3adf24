/**
 * `baton chat`: an interactive conversation with a running server in the terminal.
 */
import { createInterface } from 'node:readline'
import type { Interface } from 'node:readline'
import { BatonError } from '../../base/index.ts'
import { EXIT_FAILED } from '../../host/index.ts'
import { takesColor } from '../../os/index.ts'
import { askServer, serverUrl } from '../commands/ask-server.ts'
import { explainText } from '../commands/explain-text.ts'
import type { Explained } from '../commands/explain-text.ts'
import { outputLost } from '../guard/lost-output.ts'
import { writeFile } from '../guard/written-file.ts'
import { askForAnswer } from './chat-answer.ts'
import type { ChatSettings, Screen } from './chat-answer.ts'
import { readHistory, writeHistory } from './chat-history.ts'
import { speedText, Talk } from './chat-talk.ts'
import { questions } from './question-lines.ts'

export async function runChat(flags: Readonly<Record<string, unknown>>): Promise<number> {
  const url = serverUrl(flags['url'])
  const settings: ChatSettings = {
    url,
    model: typeof flags['model'] === 'string' ? flags['model'] : await firstModel(url),
    maxTokens: Number(flags['maxTokens']),
    temperature: flags['temperature'] === undefined ? null : Number(flags['temperature']),
  }
  const { maxTokens, temperature } = settings
  if (!Number.isInteger(maxTokens) || maxTokens < 1) {
    const given = String(flags['maxTokens'])
    throw new BatonError('config.invalid', `--max-tokens: ${given} must be a whole number above 0`)
  }
  if (Number.isNaN(temperature)) {
    const given = String(flags['temperature'])
    throw new BatonError('config.invalid', `--temperature: ${given} must be a number`)
  }
  if (flags['model'] !== undefined) await refuseUnknownModel(settings)
  console.log(greeting(settings.model, url))
  const system = typeof flags['system'] === 'string' ? flags['system'] : null
  const talk = new Talk(settings, system, {
    print: (text) => console.log(text),
    models: () => modelNames(url),
    explain: (requestId) => explanation(url, requestId),
    save: (file, content) => writeFile(file, [content]),
  })
  const hasFailed = await run(talk)
  // At a terminal the user has seen the error; a script needs the exit code.
  return hasFailed && !process.stdin.isTTY ? EXIT_FAILED : 0
}

/** The model that ships with Baton is very small, so the greeting says what it can do. */
function greeting(model: string, url: string): string {
  const first = `Talking to ${model} at ${url}. /help lists the commands.`
  if (model !== SHIPPED_NAME) return first
  return [
    first,
    'A very small model; it can, for example:',
    ...PROMPTS.map((prompt) => `  ${prompt}`),
  ].join('\n')
}

const SHIPPED_NAME = 'storyteller'
const PROMPTS = [
  'Tell me a story about a brave fox named Mira who lives in the forest.',
  'Tom has a red kite and lives in the castle. Where does Tom live?',
  'As JSON: name Mira, age 7, color red',
]

/** Returns true when an answer has failed. */
async function run(talk: Talk): Promise<boolean> {
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY
  const terminal = createInterface({
    input: process.stdin,
    output: process.stdout,
    prompt: '> ',
    ...(isTerminal ? { history: readHistory() } : {}),
  })
  let stopAnswer: AbortController | null = null
  const stop = (): boolean => {
    stopAnswer?.abort()
    return stopAnswer !== null
  }
  // The end of standard input closes the terminal interface while questions are still being answered.
  let isOpen = true
  terminal.once('close', () => (isOpen = false))
  terminal.on('history', (newestFirst: readonly string[]) => {
    if (isTerminal) writeHistory(newestFirst)
  })
  // Nobody would read the answer, nor those to the lines that follow.
  outputLost.addEventListener('abort', () => {
    stop()
    terminal.close()
  })
  let hasFailed = false
  terminal.prompt()
  for await (const line of questions(terminal, isTerminal, stop)) {
    if (outputLost.aborted) break
    const isCommand = line.trim().startsWith('/') && !line.includes('\n')
    const next = isCommand ? await talk.command(line) : asQuestion(line)
    if (next === 'quit') break
    if (next !== null) {
      stopAnswer = new AbortController()
      hasFailed = (await answer(talk, next.ask, stopAnswer.signal)) || hasFailed
      stopAnswer = null
    }
    if (isOpen) terminal.prompt()
  }
  close(terminal)
  return hasFailed
}

function asQuestion(line: string): { readonly ask: string } | null {
  const ask = line.trim()
  return ask === '' ? null : { ask }
}

/** Returns true when the answer failed; an answer that the user stopped did not fail. */
async function answer(talk: Talk, question: string, signal: AbortSignal): Promise<boolean> {
  const screen = screenNow()
  try {
    const got = await askForAnswer(talk.settings, talk.asked(question), screen, signal)
    talk.answered(question, got)
    const line = speedText(got)
    console.log(screen.hasColor ? `\u001B[2m${line}\u001B[0m` : `(${line})`)
    return false
  } catch (error) {
    console.log(signal.aborted ? '\n[stopped]' : `\n! ${BatonError.from(error).message}`)
    return !signal.aborted
  }
}

function screenNow(): Screen {
  const { stdout } = process
  return {
    // A terminal that nobody gave a size (`script`, some containers) has no columns: it wraps by itself.
    columns: (stdout.isTTY ? stdout.columns : 0) || Number.POSITIVE_INFINITY,
    hasColor: takesColor(stdout),
    write: (text) => void stdout.write(text),
  }
}

function close(terminal: Interface): void {
  terminal.close()
  process.stdin.pause()
}

async function explanation(url: string, requestId: string): Promise<string> {
  const path = `/debug/requests/${encodeURIComponent(requestId)}`
  const { status, body } = await askServer(url, path)
  if (status === 200) return explainText(body as Explained)
  const { error } = body as { readonly error?: { readonly message?: string } }
  throw new BatonError('backend.unknown', error?.message ?? `the server answered ${status}`)
}

/** Throws `request.not_found` with the names of the models that the server has. */
async function refuseUnknownModel({ url, model }: ChatSettings): Promise<void> {
  const { status, body } = await askServer(url, `/v1/models/${encodeURIComponent(model)}`)
  if (status !== 404) return
  const { error } = body as { readonly error?: { readonly message?: string } }
  const names = await modelNames(url)
  const there = names.length === 0 ? '' : ` The server has: ${names.join(', ')}.`
  throw new BatonError('request.not_found', `${error?.message ?? `no model ${model}.`}${there}`)
}

async function firstModel(url: string): Promise<string> {
  const [first] = await modelNames(url)
  if (first !== undefined) return first
  throw new BatonError('request.not_found', `the server at ${url} has no model yet`)
}

async function modelNames(url: string): Promise<readonly string[]> {
  const { body } = await askServer(url, '/v1/models')
  const { data = [] } = body as { readonly data?: readonly { readonly id: string }[] }
  return data.map(({ id }) => id)
}
