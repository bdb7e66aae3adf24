/**
 * `fetch` over a frontend in the same process: converts the SDK's request into an HttpRequest and the reply into a
 * Response.
 */
import type { Frontend, HttpReply } from '../../src/frontend/index.ts'

export function handleFetch(frontend: Frontend): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    // The request's own signal only holds a weak reference to this one.
    const signal = init?.signal ?? request.signal
    const reply = await frontend.handle({
      method: request.method,
      path: new URL(request.url).pathname,
      query: '',
      headers: Object.fromEntries(request.headers),
      body: new Uint8Array(await request.arrayBuffer()),
      signal,
    })
    return new Response(bodyOf(reply, signal), {
      status: reply.status,
      headers: { ...reply.headers },
    })
  }
}

function bodyOf(reply: HttpReply, signal: AbortSignal): string | ReadableStream<Uint8Array> {
  const { body } = reply
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array) return new TextDecoder().decode(body)
  const encoder = new TextEncoder()
  let closed = false
  return new ReadableStream<Uint8Array>({
    start(controller) {
      signal.addEventListener('abort', () => {
        if (!closed) controller.error(new DOMException('aborted', 'AbortError'))
        closed = true
      })
      body.open({
        write: (text) => {
          if (!closed) controller.enqueue(encoder.encode(text))
        },
        end: () => {
          if (!closed) controller.close()
          closed = true
        },
      })
    },
    cancel() {
      closed = true
    },
  })
}
