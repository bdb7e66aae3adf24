/**
 * Middleware that requires API keys: `Authorization: Bearer …` or `x-api-key`.
 *
 * 401 without a valid key, 403 when a valid key is not sufficient. It runs on the head of a request, so the
 * body of an unauthenticated caller is not read.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { callerOf, UNKNOWN_CALLER } from '../access/caller.ts'
import type { HttpCall } from './http-call.ts'
import type { Middleware } from './middleware.ts'
import type { ApiKey } from '../access/api-key.ts'

interface AuthenticationOptions {
  readonly clock: Clock
  /** The key with this text, or null. Takes constant time. */
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
        throw new BatonError('request.permission_denied', "this key is not an operator's key")
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
  'a valid API key is required: send it as `Authorization: Bearer <key>` or `x-api-key: <key>`'

const TWO_KEYS = '`Authorization` and `x-api-key` contain two different keys: send one of them'

/** Null: two different keys, which may belong to two tenants, so neither is chosen. */
function textOf({ head: { headers } }: HttpCall): string | null {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers['authorization'] ?? '')?.[1]
  // Some clients send an empty header when they are given a token instead of a key.
  const apiKey = headers['x-api-key']?.trim() || undefined
  if (bearer !== undefined && apiKey !== undefined && bearer !== apiKey) return null
  return bearer ?? apiKey ?? ''
}

function validKey(key: ApiKey | null, nowEpochMs: number): ApiKey | null {
  const { expiresAtEpochMs } = key ?? {}
  return expiresAtEpochMs !== undefined && expiresAtEpochMs <= nowEpochMs ? null : key
}
