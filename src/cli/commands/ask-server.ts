/**
 * How a command asks a running server, and what it says when none answers.
 */
import { Option } from 'commander'
import { withQuotedWorkerIds } from '../../api/index.ts'
import { BatonError, isRecord } from '../../base/index.ts'
import { noServer } from './no-server.ts'
import { noBaton, replyText } from './reply-text.ts'

/** `--url` of a command that asks a server; `what`: of which one. */
export function serverOption(what = 'the server'): Option {
  return new Option('--url <url>', `${what} [BATON_URL]`).default(
    process.env['BATON_URL'] ?? 'http://127.0.0.1:8000',
  )
}

/** Throws `config.invalid` when it is no address of a web server. */
export function serverUrl(given: unknown): string {
  const url = String(given)
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new BatonError(
      'config.invalid',
      `--url: ${url} is not the address of a server; an example is http://127.0.0.1:8000`,
    )
  }
  return url
}

/** The key of `BATON_API_KEY`, for a server that asks for one. */
export function keyHeaders(): Readonly<Record<string, string>> {
  const key = process.env['BATON_API_KEY']
  return key === undefined || key === '' ? {} : { authorization: `Bearer ${key}` }
}

/** Throws `transport.cannot_connect` with what to do when there is no answer, or somebody else does. */
export function askServer(url: string, path: string): Promise<ServerAnswer> {
  return exchange(url, path, { headers: keyHeaders() })
}

/** As `askServer`; throws `backend.unknown` with what the server says when it is no 200. */
export async function postServer(url: string, path: string, body: unknown): Promise<unknown> {
  const headers = { ...keyHeaders(), 'content-type': 'application/json' }
  const answer = await exchange(url, path, { method: 'POST', headers, body: JSON.stringify(body) })
  if (answer.status === 200) return answer.body
  const message = saidIn(answer.body) ?? `the server answered ${answer.status}`
  throw new BatonError('backend.unknown', message)
}

/** What a refusal says; null: it is not in Baton's form. */
export function saidIn(body: unknown): string | null {
  const error = isRecord(body) ? body['error'] : null
  return isRecord(error) && typeof error['message'] === 'string' ? error['message'] : null
}

interface ServerAnswer {
  readonly status: number
  readonly body: unknown
}

/** A server that has taken the connection answers these questions at once, or is stuck. */
const ANSWER_MS_MAX = 15_000

async function exchange(url: string, path: string, init: RequestInit): Promise<ServerAnswer> {
  const signal = AbortSignal.timeout(ANSWER_MS_MAX)
  try {
    const reply = await fetch(new URL(path, url), { ...init, signal })
    return { status: reply.status, body: parsed(url, await replyText(url, reply)) }
  } catch (error) {
    throw error instanceof BatonError ? error : noServer(url, error)
  }
}

function parsed(url: string, text: string): unknown {
  try {
    return JSON.parse(withQuotedWorkerIds(text)) as unknown
  } catch (error) {
    throw noBaton(url, error)
  }
}
