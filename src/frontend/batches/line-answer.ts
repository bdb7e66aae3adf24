/** Answers one line of a batch with the route of its endpoint, as if it had come over HTTP. */
import { BatonError } from '../../base/index.ts'
import type { CancelSignal } from '../../base/index.ts'
import type { Caller } from '../access/caller.ts'
import { HttpCall } from '../http/http-call.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import type { RouteTable } from '../http/route-table.ts'
import { writeError } from '../http/write-error.ts'

interface LineCall {
  readonly endpoint: string
  readonly body: Uint8Array
  readonly requestId: string
  readonly caller: Caller
  readonly signal: CancelSignal
}

interface LineAnswer {
  readonly status: number
  /** JSON on one line. */
  readonly body: string
  /** Why there is no answer; null: the reply came from the engine or from Baton. */
  readonly error: BatonError | null
}

export type AnswerLine = (call: LineCall) => Promise<LineAnswer>

/** `shown` converts an error into what a client may see. Never rejects. */
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
      const { status, body: text } = writeError(call.form, error, requestId)
      return { status, body: typeof text === 'string' ? inOneLine(text) : '{}', error }
    }
  }
}

const utf8 = new TextDecoder()

/** A foreign server may answer with a stream although none was requested. */
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
          reject(new BatonError('backend.stream_incomplete', 'the answer was interrupted')),
      },
    })
  })
}

/** One character per byte, as the bytes of foreign streams are represented. */
function fromBytes(text: string): string {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at)
  return utf8.decode(bytes)
}

/** Line breaks of JSON occur only between values. Anything that is not JSON becomes a JSON string. */
function inOneLine(text: string): string {
  try {
    JSON.parse(text)
    return text.replace(/[\r\n]+/g, ' ').trim()
  } catch {
    return JSON.stringify(text)
  }
}
