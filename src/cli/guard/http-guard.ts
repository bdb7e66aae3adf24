/**
 * What guards the HTTP port: keys, and the refusal to serve other machines without them.
 */
import type { Logger } from 'pino'
import { assert, BatonError } from '../../base/index.ts'
import { authentication, cors } from '../../frontend/index.ts'
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
    this.middleware = [
      cors(originsOf(config.corsOrigin)),
      ...(book === null
        ? [ownNames(config)]
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

const IS_ADDRESS = /^(\[[0-9a-f:.]+\]|[0-9.]+)$/i
const IS_OWN_NAME = /^(localhost|.+\.localhost)$/i

/**
 * Without keys only this machine may call. A web page from elsewhere could have its own name resolved to 127.0.0.1 (DNS
 * rebinding) and would then be let in by the browser: such a name in `Host` is refused.
 */
function ownNames({ host, insecureOpen }: GuardConfig): Middleware {
  const isGuarded = isLoopback(host) && !insecureOpen
  return {
    before: ({ head }) => {
      const name = (head.headers['host'] ?? '').replace(/:\d+$/, '')
      if (!isGuarded || name === '' || IS_ADDRESS.test(name) || IS_OWN_NAME.test(name)) {
        return undefined
      }
      throw new BatonError(
        'request.permission_denied',
        `without keys only this machine may call, under its own names: Host ${name} is not one of them; use --keys, or --insecure-open when something else guards this port`,
      )
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
