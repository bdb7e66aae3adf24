/**
 * Middleware that asks for keys: `Authorization: Bearer …` or `x-api-key`.
 *
 * 401 without a key that is valid now, 403 when a valid one is not enough. It runs on the head of a request: the body of
 * somebody unknown is not read.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { callerOf, UNKNOWN_CALLER } from '../access/caller.ts'
import type { HttpCall } from './http-call.ts'
import type { Middleware } from './middleware.ts'
import type { ApiKey } from '../access/api-key.ts'

interface AuthenticationOptions {
  readonly clock: Clock
  /** The key of this text, or null; takes the same time whichever it is. */
  readonly keyOf: (text: string) => ApiKey | null
}

export function authentication({ clock, keyOf }: AuthenticationOptions): Middleware {
  return {
    before: (call) => {
      const text = textOf(call)
      const key = validKey(keyOf(text ?? ''), clock.epochMs())
      call.caller = key === null ? UNKNOWN_CALLER : callerOf(key)
      const access = call.route?.access ?? 'client'
      if (access === 'anyone') return undefined
      if (text === null) throw new BatonError('request.unauthenticated', TWO_KEYS)
      if (key === null) throw new BatonError('request.unauthenticated', WANTED)
      if (access === 'operator' && key.mayOperate !== true) {
        throw new BatonError('request.permission_denied', 'this key is not of an operator')
      }
      return undefined
    },
    after: (_, reply) =>
      reply.status === 401
        ? { ...reply, headers: { ...reply.headers, 'www-authenticate': 'Bearer' } }
        : reply,
  }
}

const WANTED =
  'a valid API key is needed: send it as `Authorization: Bearer <key>` or `x-api-key: <key>`'

const TWO_KEYS = '`Authorization` and `x-api-key` hold two different keys: send one of them'

/** Null: two different keys, which may be those of two tenants; neither is chosen. */
function textOf({ head: { headers } }: HttpCall): string | null {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers['authorization'] ?? '')?.[1]
  const apiKey = headers['x-api-key']?.trim()
  if (bearer !== undefined && apiKey !== undefined && bearer !== apiKey) return null
  return bearer ?? apiKey ?? ''
}

function validKey(key: ApiKey | null, nowEpochMs: number): ApiKey | null {
  const { expiresAtEpochMs } = key ?? {}
  return expiresAtEpochMs !== undefined && expiresAtEpochMs <= nowEpochMs ? null : key
}
