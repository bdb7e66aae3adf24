/**
 * The simplest upstream for a router: an OpenAI server of raw sockets that reads the length of a body and writes
 * bytes. Argument: milliseconds between the tokens of a stream, 0: all at once, one event per write. Prints its
 * port.
 *
 * `max_tokens` and `stream` are searched at the beginning and the end of a body without parsing it, because some
 * routers rewrite bodies with the keys in another order.
 */
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

const ID = 'chatcmpl-00000000-0000-4000-8000-000000000000'
const EVENT = `data: {"id":"${ID}","object":"chat.completion.chunk","created":1795268504,"model":"storyteller","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`
const USAGE = '"usage":{"prompt_tokens":111,"completion_tokens":1,"total_tokens":112}'
const BODY = `{"id":"${ID}","object":"chat.completion","created":1795268503,"model":"storyteller","choices":[{"index":0,"message":{"role":"assistant","content":" word","refusal":null},"logprobs":null,"finish_reason":"length"}],${USAGE}}`
const json = (body: string): string =>
  `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`
const WHOLE = json(BODY)
const MODELS = json('{"object":"list","data":[{"id":"storyteller","object":"model"}]}')
const STREAM_HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const TOKEN = chunk(EVENT)
const END = `${chunk(`data: {"choices":[],${USAGE}}\n\n`)}${chunk('data: [DONE]\n\n')}0\r\n\r\n`

const itlMs = Number(process.argv[2] ?? 0)
const streams = new Set<{ readonly socket: Socket; left: number }>()

function step(): void {
  for (const stream of streams) {
    stream.left -= 1
    if (stream.left > 0) stream.socket.write(TOKEN, 'latin1')
    else {
      stream.socket.write(END, 'latin1')
      streams.delete(stream)
    }
  }
}
if (itlMs > 0) setInterval(step, itlMs)
// Exits together with the process that has started it.
process.stdin.on('end', () => process.exit(0)).resume()

/** Both ends of the received part of a body. */
function fieldsOf(text: string): string {
  return text.length <= 1024 ? text : text.slice(0, 512) + text.slice(-512)
}

function answer(socket: Socket, head: string, fields: string): void {
  if (head.startsWith('GET')) {
    socket.write(
      head.startsWith('GET /v1/models') || head.startsWith('GET /health') ? MODELS : json('{}'),
    )
    return
  }
  if (!/"stream": ?true/.test(fields)) {
    socket.write(WHOLE, 'latin1')
    return
  }
  const tokens = Number(/"max_tokens": ?(\d+)/.exec(fields)?.[1] ?? 1)
  socket.write(STREAM_HEAD + TOKEN, 'latin1')
  if (itlMs > 0) {
    streams.add({ socket, left: tokens })
    return
  }
  for (let i = 1; i < tokens; i++) socket.write(TOKEN, 'latin1')
  socket.write(END, 'latin1')
}

const server = createServer({ noDelay: true }, (socket) => {
  let head: string | null = null
  let missing = 0
  let fields = ''
  socket.on('error', () => undefined)
  socket.on('data', (bytes: Buffer) => {
    let rest = bytes
    while (rest.length > 0) {
      if (head === null) {
        const end = rest.indexOf('\r\n\r\n')
        if (end < 0) return
        head = rest.toString('latin1', 0, end)
        missing = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
        rest = rest.subarray(end + 4)
      }
      const taken = rest.subarray(0, missing)
      fields = fieldsOf(fields + taken.toString('latin1'))
      missing -= taken.length
      rest = rest.subarray(taken.length)
      if (missing > 0) return
      answer(socket, head, fields)
      head = null
      fields = ''
    }
  })
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
