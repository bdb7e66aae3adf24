/**
 * What guards the HTTP port: keys, and the refusal to serve other machines without them.
 */
import type { Logger } from 'pino'
import { assert, BatonError } from '../../base/index.ts'
import {
  allowedOrigins,
  authentication,
  cors,
  isDoneByForeignPage,
  namesThisMachine,
} from '../../frontend/index.ts'
import type { ApiKey, HttpCall, HttpReply, Middleware } from '../../frontend/index.ts'
import type { KeyBook } from '../../host/index.ts'
import { isLoopback, osClock } from '../../os/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'

type GuardConfig = Pick<ServeConfig, 'host' | 'keys' | 'insecureOpen' | 'corsOrigin'>

export class HttpGuard {
  readonly middleware: readonly Middleware[]
  readonly #keys: KeyBook | null

  /** `book`: of `--keys`. Throws `config.invalid` when strangers would be served. */
  constructor(config: GuardConfig, book: KeyBook | null, logger: Logger) {
    refuseOpenPort(config)
    assert((config.keys === null) === (book === null), 'keys are asked for and not open')
    this.#keys = book
    const origins = originsOf(config.corsOrigin)
    this.middleware = [
      cors(origins),
      ...(book === null
        ? [ownPages(config, origins)]
        : [audit(logger), authentication({ clock: osClock, keyOf: (text) => book.keyOf(text) })]),
    ]
  }

  /** Null: none is asked for. */
  get keys(): readonly ApiKey[] | null {
    return this.#keys?.keys ?? null
  }
}

/** Throws `config.invalid` when other machines reach the port and no key is required. */
export function refuseOpenPort({ host, keys, insecureOpen }: GuardConfig): void {
  if (keys !== null || insecureOpen || isLoopback(host)) return
  throw new BatonError(
    'config.invalid',
    `--host ${host} can be reached from other machines and no key is required: add --keys (baton keys add), or --insecure-open when something else guards it`,
  )
}

/** Throws `config.invalid` for what no browser sends. */
function originsOf(written: string | null): readonly string[] {
  const origins = (written ?? '').split(',').map((origin) => origin.trim())
  const given = origins.filter((origin) => origin !== '')
  const odd = given.find((origin) => !/^(\*|null|[a-z][a-z0-9+.-]*:\/\/[^/\s]+)$/i.test(origin))
  if (odd === undefined) return given
  throw new BatonError(
    'config.invalid',
    `--cors-origin: ${odd} is no origin; one is https://chat.example, without a path`,
  )
}

/**
 * Without keys only this machine may call, and a browser on it is no way in for web pages from elsewhere: not under a name
 * that they had resolved to 127.0.0.1 (DNS rebinding), and not with a request that needs no answer.
 */
function ownPages({ host, insecureOpen }: GuardConfig, origins: readonly string[]): Middleware {
  const isGuarded = isLoopback(host) && !insecureOpen
  const isAllowed = allowedOrigins(origins)
  return {
    before: ({ head: { method, headers } }) => {
      if (isGuarded && !namesThisMachine(headers)) {
        throw new BatonError(
          'request.permission_denied',
          `without keys only this machine may call, under its own names: Host ${headers['host']} is not one of them; use --keys, or --insecure-open when something else guards this port`,
        )
      }
      if (isDoneByForeignPage(method, headers, isAllowed)) {
        throw new BatonError(
          'request.permission_denied',
          `without keys a web page of another origin (${headers['origin'] ?? 'unknown'}) may do nothing here: name it with --cors-origin, or use --keys`,
        )
      }
      return undefined
    },
  }
}

/** Refused and administrative calls, with the key's id and never the key. */
function audit(logger: Logger): Middleware {
  return {
    after: (call, reply) => {
      const isRefused = reply.status === 401 || reply.status === 403 || reply.status === 429
      const isAdministrative = call.route?.access === 'operator' && call.head.method !== 'GET'
      if (isRefused || isAdministrative) {
        const text = isRefused ? 'call refused' : 'administrative call'
        logger[isRefused ? 'warn' : 'info'](auditFacts(call, reply), text)
      }
      return reply
    },
  }
}

function auditFacts({ head, caller, requestId }: HttpCall, { status }: HttpReply): object {
  const { method, path, remoteAddress } = head
  const { id: keyId, tenant: tenantId } = caller.key ?? {}
  return { requestId, method, path, status, remoteAddress, keyId, tenantId }
}
