/**
 * Requests to the server, with the key that the user entered if one is needed.
 */
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { withQuotedWorkerIds } from '../../api/index.ts'

const KEY = 'baton-key'

/** The server requires a key, or another one. */
export class KeyWanted extends Error {}

export function setKey(key: string): void {
  sessionStorage.setItem(KEY, key)
}

export function keyHeaders(): Record<string, string> {
  const key = sessionStorage.getItem(KEY)
  return key === null || key === '' ? {} : { authorization: `Bearer ${key}` }
}

export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...keyHeaders(), ...(init.headers as Record<string, string> | undefined) }
  const response = await fetch(path, { ...init, headers })
  if (response.status === 401 || response.status === 403) throw new KeyWanted(await said(response))
  return response
}

/** The value; throws the server's error message. */
export async function askJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await ask(path, init)
  if (!response.ok) throw new Error(await said(response))
  return JSON.parse(withQuotedWorkerIds(await response.text())) as T
}

export async function said(response: Response): Promise<string> {
  const body = (await response.json().catch(() => null)) as {
    error?: { message?: string }
  } | null
  return body?.error?.message ?? `the server answered ${response.status}`
}

export interface ServerEvent {
  readonly event: string
  readonly data: string
}

/** The events of a stream as they arrive. `EventSource` cannot send a key. */
export async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body
    ?.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader()
  if (reader === undefined) return
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    yield { event: value.event ?? 'message', data: value.data }
  }
}
