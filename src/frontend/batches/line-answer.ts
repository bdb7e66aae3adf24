/** How one line of a batch is answered: by the route of its endpoint, as if it had come over HTTP. */
import { BatonError } from '../../base/index.ts'
import type { CancelSignal } from '../../base/index.ts'
import type { Caller } from '../access/caller.ts'
import { HttpCall } from '../http/http-call.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import type { RouteTable } from '../http/route-table.ts'
import { writeError } from '../http/write-error.ts'

export interface LineCall {
  readonly endpoint: string
  readonly body: Uint8Array
  readonly requestId: string
  readonly caller: Caller
  readonly signal: CancelSignal
}

export interface LineAnswer {
  readonly status: number
  /** JSON in one line. */
  readonly body: string
  /** Why there is no answer; null: the reply is the engine's or Baton's own. */
  readonly error: BatonError | null
}

export type AnswerLine = (call: LineCall) => Promise<LineAnswer>

/** `shown`: an error as it may be shown. Never rejects. */
export function answeredBy(
  table: RouteTable,
  shown: (thrown: unknown, call: HttpCall) => BatonError,
): AnswerLine {
  return async ({ endpoint, body, requestId, caller, signal }) => {
    const http = {
      method: 'POST',
      path: endpoint,
      query: '',
      headers: { 'content-type': 'application/json' },
      signal,
      body,
    }
    let call = new HttpCall(http, requestId, null)
    try {
      const { route, names } = table.find(http)
      call = new HttpCall(http, requestId, route, names)
      call.caller = caller
      const reply = await route.handle(http, call)
      return { status: reply.status, body: inOneLine(await textOf(reply)), error: null }
    } catch (thrown) {
      const error = shown(thrown, call)
      const { status, body: text } = writeError(call.form, error)
      return { status, body: typeof text === 'string' ? inOneLine(text) : '{}', error }
    }
  }
}

const utf8 = new TextDecoder()

/** What another server answered may come as a stream, although none was asked for. */
async function textOf({ body }: HttpReply): Promise<string> {
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array) return utf8.decode(body)
  return await new Promise((resolve, reject) => {
    let text = ''
    let isAscii = true
    body.open({
      write: (more, ascii) => {
        text += more
        isAscii &&= ascii
      },
      end: () => resolve(isAscii ? fromBytes(text) : text),
      flow: {
        isFull: false,
        whenRead: () => undefined,
        abort: () =>
          reject(new BatonError('backend.stream_incomplete', 'the answer was broken off')),
      },
    })
  })
}

/** One character per byte, as a stream of another server's bytes is written. */
function fromBytes(text: string): string {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at)
  return utf8.decode(bytes)
}

/** A line break of JSON stands between values only. What is no JSON becomes a text. */
function inOneLine(text: string): string {
  try {
    JSON.parse(text)
    return text.replace(/[\r\n]+/g, ' ').trim()
  } catch {
    return JSON.stringify(text)
  }
}
