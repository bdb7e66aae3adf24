/**
 * Access control of the HTTP port: API keys, and the refusal to listen for other machines without keys.
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

  /** `book`: the keys of `--keys`. Throws `config.invalid` when the port would be open to other machines. */
  constructor(config: GuardConfig, book: KeyBook | null, logger: Logger) {
    refuseOpenPort(config)
    assert((config.keys === null) === (book === null), 'keys are required but were not opened')
    this.#keys = book
    const origins = originsOf(config.corsOrigin)
    this.middleware = [
      cors(origins),
      ...(book === null
        ? [ownPages(config, origins)]
        : [audit(logger), authentication({ clock: osClock, keyOf: (text) => book.keyOf(text) })]),
    ]
  }

  /** Null: no keys are required. */
  get keys(): readonly ApiKey[] | null {
    return this.#keys?.keys ?? null
  }
}

/** Throws `config.invalid` when other machines can reach the port and no key is required. */
export function refuseOpenPort({ host, keys, insecureOpen }: GuardConfig): void {
  if (keys !== null || insecureOpen || isLoopback(host)) return
  throw new BatonError(
    'config.invalid',
    `--host ${host} can be reached from other machines and no key is required: add --keys (baton keys add), or --insecure-open when a proxy or firewall controls access`,
  )
}

/** Throws `config.invalid` for a value that no browser sends as an origin. */
function originsOf(written: string | null): readonly string[] {
  const origins = (written ?? '').split(',').map((origin) => origin.trim())
  const given = origins.filter((origin) => origin !== '')
  const odd = given.find((origin) => !/^(\*|null|[a-z][a-z0-9+.-]*:\/\/[^/\s]+)$/i.test(origin))
  if (odd === undefined) return given
  throw new BatonError(
    'config.invalid',
    `--cors-origin: ${odd} is invalid: expected an origin without a path, for example https://chat.example`,
  )
}

/**
 * Without keys only this machine may call. A browser on it must not be a way in for web pages from elsewhere:
 * neither under a name that resolves to 127.0.0.1 (DNS rebinding), nor with a cross-origin request whose reply
 * the page does not need to read.
 */
function ownPages({ host, insecureOpen }: GuardConfig, origins: readonly string[]): Middleware {
  const isGuarded = isLoopback(host) && !insecureOpen
  const isAllowed = allowedOrigins(origins)
  return {
    before: ({ head: { method, headers } }) => {
      if (isGuarded && !namesThisMachine(headers)) {
        throw new BatonError(
          'request.permission_denied',
          `Host ${headers['host']} is refused: without keys the server accepts only names of this machine, such as localhost: use --keys, or --insecure-open when a proxy or firewall controls access`,
        )
      }
      if (isDoneByForeignPage(method, headers, isAllowed)) {
        throw new BatonError(
          'request.permission_denied',
          `without keys web pages of another origin (${headers['origin'] ?? 'unknown'}) are refused: allow the origin with --cors-origin, or use --keys`,
        )
      }
      return undefined
    },
  }
}

/** Logs refused and administrative calls, with the key's id and never the key. */
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
