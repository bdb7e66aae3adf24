/**
 * Sends a command's request to a running server, and explains a failure to connect.
 */
import { Option } from 'commander'
import { withQuotedWorkerIds } from '../../api/index.ts'
import { BatonError, isRecord } from '../../base/index.ts'
import { apiKey } from './api-key.ts'
import { noServer } from './no-server.ts'
import { noBaton, replyText } from './reply-text.ts'

const HERE = 'http://127.0.0.1:8000'

/** The option `--url` of a command that asks a server; `what` names the server in the help. */
export function serverOption(what = 'the server'): Option {
  return new Option('--url <url>', `${what} (default: ${HERE}) [BATON_URL]`)
}

/**
 * The address before `/v1/…`. SDKs call their base URL the same with `/v1` behind it, so both forms are accepted. Throws
 * `config.invalid` when it is not an http:// or https:// address. `given`: the value of `--url`, which comes before
 * `BATON_URL`, or of what `name` names.
 */
export function serverUrl(
  given: unknown,
  name = given === undefined ? 'BATON_URL' : '--url',
): string {
  const url = (given as string | undefined) ?? process.env['BATON_URL'] ?? HERE
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new BatonError(
      'config.invalid',
      `${name}: ${url} is invalid: expected the address of a server, for example ${HERE}`,
    )
  }
  return url.replace(/\/+$/, '').replace(/\/v1$/, '')
}

/** The `authorization` header with the key in `BATON_API_KEY`; empty when the variable is not set. */
export function keyHeaders(): Readonly<Record<string, string>> {
  const key = apiKey()
  return key === null ? {} : { authorization: `Bearer ${key}` }
}

/**
 * Rejects with `transport.cannot_connect`, which says what to do, when no Baton server answers within `withinMs`.
 */
export function askServer(
  url: string,
  path: string,
  withinMs = ANSWER_MS_MAX,
): Promise<ServerAnswer> {
  return exchange(url, path, { headers: keyHeaders() }, withinMs)
}

/**
 * Like `askServer`, by POST; rejects with `backend.unknown` and the server's message when the status is not
 * 200.
 */
export async function postServer(url: string, path: string, body: unknown): Promise<unknown> {
  const headers = { ...keyHeaders(), 'content-type': 'application/json' }
  const answer = await exchange(
    url,
    path,
    { method: 'POST', headers, body: JSON.stringify(body) },
    ANSWER_MS_MAX,
  )
  if (answer.status === 200) return answer.body
  const message = saidIn(answer.body) ?? `the server answered ${answer.status}`
  throw new BatonError('backend.unknown', message)
}

/** The message of an error body; null: it does not have the form of Baton's errors. */
export function saidIn(body: unknown): string | null {
  const error = isRecord(body) ? body['error'] : null
  return isRecord(error) && typeof error['message'] === 'string' ? error['message'] : null
}

interface ServerAnswer {
  readonly status: number
  readonly body: unknown
}

/** A working server answers these requests at once; one that takes longer is stuck. */
const ANSWER_MS_MAX = 15_000

async function exchange(
  url: string,
  path: string,
  init: RequestInit,
  withinMs: number,
): Promise<ServerAnswer> {
  const signal = AbortSignal.timeout(withinMs)
  try {
    const reply = await fetch(new URL(path, url), { ...init, signal })
    return { status: reply.status, body: parsed(url, await replyText(url, reply, withinMs)) }
  } catch (error) {
    throw error instanceof BatonError ? error : noServer(url, error, withinMs)
  }
}

function parsed(url: string, text: string): unknown {
  try {
    return JSON.parse(withQuotedWorkerIds(text)) as unknown
  } catch (error) {
    throw noBaton(url, error)
  }
}
