/**
 * The baseline of a server: a bare node:http server that writes the bytes of a reply and does nothing else.
 *
 * Argument: the milliseconds between the tokens of a stream; one timer serves all streams. Prints its port.
 */
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { BODY, EVENT } from './bare-events.ts'

interface Stream {
  readonly res: ServerResponse
  left: number
}

const itlMs = Number(process.argv[2] ?? 6)
let streams: Stream[] = []

function step(): void {
  for (const stream of streams) {
    stream.left -= 1
    if (stream.left > 0) stream.res.write(EVENT, 'latin1')
    else stream.res.end('data: [DONE]\n\n')
  }
  streams = streams.filter(({ left }) => left > 0)
}
setInterval(step, itlMs)

const server = createServer({ noDelay: true }, (req, res) => {
  const parts: Buffer[] = []
  req.on('data', (part: Buffer) => parts.push(part))
  req.on('end', () => {
    const asked = JSON.parse(Buffer.concat(parts).toString()) as {
      stream?: boolean
      max_tokens: number
    }
    if (asked.stream === true) {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      streams.push({ res, left: asked.max_tokens + 2 })
    } else {
      res.writeHead(200, { 'content-type': 'application/json', 'content-length': BODY.length })
      res.end(BODY)
    }
  })
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
