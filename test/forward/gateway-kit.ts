/** A gateway in this process in front of raw TCP servers, assembled like `baton serve --upstream`. */
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { FrontendStack } from '../../src/cli/compose/frontend-stack.ts'
import { gatewayFleet } from '../../src/cli/compose/gateway-fleet.ts'
import { openKeys } from '../../src/cli/guard/open-keys.ts'
import { resolveConfig } from '../../src/cli/options/resolve-config.ts'
import { routerSettings } from '../../src/cli/options/router-settings.ts'
import { serveConfig } from '../../src/cli/options/serve-config.ts'
import { MemoryDiscovery } from '../../src/discovery/index.ts'
import { fakeServer, jsonResponse } from '../upstream/transcripts.ts'
import type { FakeServer, SeenRequest } from '../upstream/transcripts.ts'

type Answer = (request: SeenRequest) => Buffer | string | null | undefined

export interface ForwardEngineServer extends FakeServer {
  /** Requests of clients, without Baton's own requests to the server. */
  readonly asked: readonly SeenRequest[]
}

/** An OpenAI server with the model `m`; `answer` gets all requests that are not about the server itself. */
export async function engineServer(
  answer: Answer,
  models: readonly string[] = ['m'],
): Promise<ForwardEngineServer> {
  const asked: SeenRequest[] = []
  const server = await fakeServer((request) => {
    if (request.method === 'GET') {
      const data = models.map((id) => ({ id, object: 'model' }))
      return request.path === '/v1/models' ? jsonResponse(200, { data }) : undefined
    }
    asked.push(request)
    return answer(request)
  })
  return { ...server, seen: server.seen, asked }
}

export interface Gateway {
  readonly url: string
  readonly port: number
  close(): Promise<void>
}

export async function startGateway(
  upstreams: readonly { readonly url: string }[],
  flags: Readonly<Record<string, unknown>> = {},
): Promise<Gateway> {
  const options = resolveConfig({
    flags: {
      upstream: upstreams.map(({ url }) => url).join(','),
      forward: true,
      port: 0,
      logLevel: 'silent',
      ...flags,
    },
    environment: {},
  })
  const config = serveConfig(options)
  const discovery = new MemoryDiscovery()
  const stack = new FrontendStack({
    config,
    router: routerSettings(options).router,
    discovery,
    keys: await openKeys(config),
    plane: 'local',
  })
  const fleet = gatewayFleet(config, stack, discovery)
  const port = await stack.listen()
  await stack.watch()
  await fleet.start()
  await stack.untilConnected(fleet.workers, 60_000)
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      await stack.drain(0)
      await fleet.stop(1000)
      await stack.close()
      await discovery.close()
    },
  }
}

export interface RawAnswer {
  readonly status: number
  readonly head: string
  readonly body: Buffer
  /** The connection ended before the body was complete. */
  readonly isCutOff: boolean
}

/** One request on its own connection; returns the body without transfer encoding. */
export function ask(
  port: number,
  path: string,
  body: string | Buffer,
  headers = '',
): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const socket = post(port, path, body, `${headers}connection: close\r\n`)
    const pieces: Buffer[] = []
    socket.on('data', (bytes) => pieces.push(bytes))
    socket.once('error', reject)
    socket.once('close', () => {
      try {
        resolve(rawAnswer(Buffer.concat(pieces)))
      } catch (error) {
        reject(error as Error)
      }
    })
  })
}

/** Sends the request; the caller reads the response. */
export function post(port: number, path: string, body: string | Buffer, headers = ''): Socket {
  const socket = connect(port, '127.0.0.1')
  const type = /content-type:/i.test(headers) ? '' : 'content-type: application/json\r\n'
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${type}${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n`,
  )
  socket.write(body)
  return socket
}

function rawAnswer(bytes: Buffer): RawAnswer {
  const end = bytes.indexOf('\r\n\r\n')
  const head = bytes.toString('latin1', 0, end)
  const rest = bytes.subarray(end + 4)
  const status = Number(head.slice(9, 12))
  if (!/transfer-encoding: chunked/i.test(head)) {
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? rest.length)
    return { status, head, body: rest, isCutOff: rest.length < length }
  }
  const pieces: Buffer[] = []
  let at = 0
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', at)
    if (lineEnd < 0) return { status, head, body: Buffer.concat(pieces), isCutOff: true }
    const length = parseInt(rest.toString('latin1', at, lineEnd), 16)
    if (length === 0) return { status, head, body: Buffer.concat(pieces), isCutOff: false }
    pieces.push(rest.subarray(lineEnd + 2, lineEnd + 2 + length))
    at = lineEnd + 2 + length + 2
  }
}
