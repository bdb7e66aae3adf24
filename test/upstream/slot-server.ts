/**
 * A server with the slots of a llama-server: each keeps its last prompt, a request may reuse the beginning of it, a
 * busy slot makes requests wait, and a number that does not exist wraps around to another slot.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { responseOf } from './transcripts.ts'

export interface SlotServer {
  readonly url: string
  /** Slot numbers as asked for. */
  readonly asked: number[]
  /** Makes it answer nothing to the next request with a prompt until the connection ends. */
  holdsNext: boolean
  /** Answers the next request with a prompt with this status, and computes nothing. */
  refusesNext: number | null
  /** Ends all connections, and listens again with other slots, all of them empty. */
  restart(slots: number): Promise<void>
  close(): Promise<void>
}

interface Body {
  readonly prompt: readonly number[]
  readonly id_slot?: number
  readonly cache_prompt: boolean
}

const PROPS = jsonOf(responseOf('llama-server', 'get_props')) as Record<string, unknown>
const MODELS = jsonOf(responseOf('llama-server', 'get_models'))

export async function slotServer(slots: number): Promise<SlotServer> {
  let held = empty(slots)
  const server = createServer((request, response) => {
    let text = ''
    request.on('data', (bytes: Buffer) => {
      text += bytes.toString('utf8')
    })
    request.on('end', () => answer(request, response, text))
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => {
      server.listen(port, '127.0.0.1', resolve)
    })
  const end = (): Promise<unknown> => {
    const ended = new Promise((resolve) => {
      server.close(resolve)
    })
    server.closeAllConnections()
    return ended
  }
  await listen(0)
  const { port } = server.address() as AddressInfo

  function answer({ url: path = '' }: IncomingMessage, response: ServerResponse, text: string) {
    if (path === '/health') json(response, { status: 'ok' })
    else if (path === '/v1/models') json(response, MODELS)
    else if (path === '/props') json(response, { ...PROPS, total_slots: held.length })
    else if (path === '/completion') complete(response, JSON.parse(text) as Body)
    else response.writeHead(404, { 'Content-Length': 0 }).end()
  }

  function complete(response: ServerResponse, body: Body): void {
    own.asked.push(body.id_slot ?? -1)
    if (own.holdsNext) {
      own.holdsNext = false
      return
    }
    if (own.refusesNext !== null) {
      response.writeHead(own.refusesNext, { 'Content-Length': 0 }).end()
      own.refusesNext = null
      return
    }
    const id = (body.id_slot ?? 0) % held.length
    const before = body.cache_prompt ? (held[id] ?? []) : []
    let reused = 0
    while (reused < before.length && before[reused] === body.prompt[reused]) reused += 1
    held[id] = body.prompt
    const base = { content: 'x', tokens: [7], stop: false, id_slot: -1 }
    const last = {
      content: '',
      tokens: [],
      stop: true,
      stop_type: 'limit',
      id_slot: id,
      tokens_evaluated: body.prompt.length,
      timings: { cache_n: reused },
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream', Connection: 'close' })
    response.end([base, last].map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''))
  }

  const own: SlotServer = {
    url: `http://127.0.0.1:${port}`,
    asked: [],
    holdsNext: false,
    refusesNext: null,
    restart: async (count) => {
      await end()
      held = empty(count)
      await listen(port)
    },
    close: async () => {
      await end()
    },
  }
  return own
}

function empty(slots: number): (readonly number[])[] {
  return Array.from({ length: slots }, () => [])
}

function json(response: ServerResponse, value: unknown): void {
  const text = JSON.stringify(value)
  response.writeHead(200, { 'Content-Type': 'application/json' }).end(text)
}

function jsonOf(response: Buffer): unknown {
  const text = response.toString('utf8')
  return JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as unknown
}
