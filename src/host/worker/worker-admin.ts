/**
 * A worker's own small HTTP server: health for whoever watches the process, and an administrator's commands.
 *
 *   GET  /live /health /metrics        for anybody who reaches the port
 *   GET  /engine/status                with the token
 *   POST /engine/drain /engine/resume  with the token
 *   POST /engine/control/<name>        with the token; the body is a JSON object
 *
 * Without a token the port must be on the loopback address: then whoever is on this machine is the administrator, but no web
 * page that a browser on it shows.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { BatonError } from '../../base/index.ts'
import { isDoneByForeignPage, namesThisMachine, plainRequests } from '../../frontend/index.ts'
import type { HttpReply, HttpRequest } from '../../frontend/index.ts'
import type { Worker } from '../../worker/index.ts'
import type { MetricsPage } from '../observe/metrics-page.ts'
import { HttpServer } from '../../network/index.ts'
import { isLoopback } from '../../os/index.ts'

interface WorkerAdminOptions {
  readonly worker: Worker
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly token?: string
  readonly metrics: (accept: string | undefined) => Promise<MetricsPage>
  readonly onFault: (error: unknown) => void
}

const BODY_BYTES_MAX = 1024 * 1024
const CONTROL = '/engine/control/'

/** Rejects with `config.invalid` when commands would be open to everybody, `host.address_in_use` when the port is taken. */
export async function listenWorkerAdmin(options: WorkerAdminOptions): Promise<HttpServer> {
  const { host, port, token, onFault } = options
  if (token === undefined && !isLoopback(host)) {
    throw new BatonError(
      'config.invalid',
      `the admin port of a worker on ${host} needs a token: anybody could drain it`,
    )
  }
  return await HttpServer.listen({
    host,
    port,
    onFault,
    open: plainRequests({
      bodyBytesMax: BODY_BYTES_MAX,
      answer: (request) => route(options, request),
      refuse: ({ code, message, row }) => json(row.httpStatus, { error: { code, message } }),
      onFault,
    }),
  })
}

async function route(options: WorkerAdminOptions, request: HttpRequest): Promise<HttpReply> {
  const { worker, metrics } = options
  const { method, path } = request
  if (options.token === undefined) refuseWebPages(request)
  const health = worker.health()
  if (method === 'GET' && path === '/live') return json(health.live ? 200 : 503, health)
  if (method === 'GET' && path === '/health') return json(health.ready ? 200 : 503, health)
  if (method === 'GET' && path === '/metrics') {
    const { contentType, body } = await metrics(request.headers['accept'])
    return { status: 200, headers: { 'content-type': contentType, vary: 'accept' }, body }
  }
  if (!path.startsWith('/engine/')) throw new BatonError('request.not_found', `no route ${path}`)
  checkToken(options.token, request.headers['authorization'])
  if (method === 'GET' && path === '/engine/status') return json(200, worker.status())
  if (method !== 'POST') {
    throw new BatonError('request.method_not_allowed', `${path} does not take ${method}`)
  }
  if (path === '/engine/drain') return json(200, await worker.drain())
  if (path === '/engine/resume') return json(200, await worker.resume())
  if (path.startsWith(CONTROL)) {
    const name = decodeURIComponent(path.slice(CONTROL.length))
    return json(200, (await worker.control(name, bodyOf(request))) ?? null)
  }
  throw new BatonError('request.not_found', `no route ${path}`)
}

function refuseWebPages({ method, headers }: HttpRequest): void {
  if (namesThisMachine(headers) && !isDoneByForeignPage(method, headers, () => false)) return
  throw new BatonError(
    'request.permission_denied',
    'without a token (--admin-token) no web page may call, and only under names of this machine',
  )
}

function checkToken(token: string | undefined, authorization: string | undefined): void {
  if (token === undefined) return
  const given = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1] ?? ''
  if (timingSafeEqual(digest(given), digest(token))) return
  throw new BatonError('request.unauthenticated', 'a bearer token is needed, or it is wrong')
}

/** Of one length, whatever was given. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

function bodyOf(request: HttpRequest): unknown {
  if (request.body.length === 0) return {}
  let body: unknown
  try {
    body = JSON.parse(new TextDecoder().decode(request.body))
  } catch (cause) {
    throw new BatonError('request.invalid_argument', 'the body is not JSON', { cause })
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body
  throw new BatonError('request.invalid_argument', 'the body must be a JSON object')
}

function json(status: number, value: unknown): HttpReply {
  const headers = { 'content-type': 'application/json' }
  return { status, headers, body: `${JSON.stringify(value)}\n` }
}
