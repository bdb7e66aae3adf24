/**
 * A worker's own small HTTP server: health checks, and an administrator's commands.
 *
 * GET  /live /health /metrics        public
 * GET  /engine/status                with the token
 * POST /engine/drain /engine/resume  with the token
 * POST /engine/control/<name>        with the token; the body is a JSON object
 *
 * Without a token the port must be on the loopback address. Then everybody on this machine may administer the
 * worker, except web pages in a browser on it.
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

/**
 * Rejects with `config.invalid` when commands would be open to other machines, and `host.address_in_use` when the
 * port is taken.
 */
export async function listenWorkerAdmin(options: WorkerAdminOptions): Promise<HttpServer> {
  const { host, port, token, onFault } = options
  if (token === undefined && !isLoopback(host)) {
    throw new BatonError(
      'config.invalid',
      `the admin port of a worker on ${host} needs --admin-token: without it every machine that reaches the port could drain the worker`,
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
    throw new BatonError('request.method_not_allowed', `${path} does not support ${method}`)
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
    'without a token (--admin-token) web pages and foreign host names are refused',
  )
}

function checkToken(token: string | undefined, authorization: string | undefined): void {
  if (token === undefined) return
  const given = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1] ?? ''
  if (timingSafeEqual(digest(given), digest(token))) return
  throw new BatonError('request.unauthenticated', 'the bearer token is missing or wrong')
}

/** Always the same length, for a comparison in constant time. */
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
