/** The address of a fleet's NATS server as a value: `nats://[USER:PASSWORD@]HOST:PORT[,…][?prefix=…]`. */
import { addressText } from '../../base/index.ts'
import type { BatonError } from '../../base/index.ts'
import { hostPortOf, invalidFor } from '../host-port.ts'

export interface NatsAddress {
  readonly kind: 'nats'
  /** Each `host:port`. */
  readonly servers: readonly string[]
  /** The prefix of the names of buckets and subjects, so that several fleets can share a server. */
  readonly prefix: string
  readonly user?: string
  readonly password?: string
  readonly token?: string
  /** Path of a `.creds` file. */
  readonly credentials?: string
  /** Paths of PEM files. Absent: no TLS, unless the server requires it. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
}

const NATS_PORT = 4222
const NATS_PARAMETERS = new Set(['prefix', 'token', 'creds', 'tls_ca', 'tls_cert', 'tls_key'])

/** `option`: named in error messages. Throws `config.invalid`. */
export function parseNatsAddress(text: string, option: string): NatsAddress {
  const invalid = (shown: string, why: string): BatonError => invalidFor(option, shown, why)
  const [, scheme, authority = '', query = ''] =
    /^(nats|tls):\/\/([^/?]*)\/?(?:\?(.*))?$/s.exec(text) ?? []
  if (scheme === undefined) throw invalid(withoutSecrets(text), 'expected nats://<host>:4222[,…]')
  const at = authority.lastIndexOf('@')
  const [user, password] = at < 0 ? [] : authority.slice(0, at).split(':')
  const servers = authority
    .slice(at + 1)
    .split(',')
    .map((part) => hostPortOf(withoutSecrets(text), part, NATS_PORT, option))
    .map(({ host, port }) => addressText(host, port))
  const given = new URLSearchParams(query)
  const unknown = [...given.keys()].find((name) => !NATS_PARAMETERS.has(name))
  if (unknown !== undefined) {
    const known = [...NATS_PARAMETERS].join(', ')
    throw invalid(withoutSecrets(text), `unknown parameter '${unknown}': expected one of ${known}`)
  }
  const prefix = given.get('prefix') ?? 'baton'
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(prefix)) {
    throw invalid(withoutSecrets(text), 'prefix must have at most 64 letters, digits, - and _')
  }
  const tls = tlsOf(given, scheme === 'tls')
  return {
    kind: 'nats',
    servers,
    prefix,
    ...(user === undefined || user === '' ? {} : { user: decodeURIComponent(user) }),
    ...(password === undefined ? {} : { password: decodeURIComponent(password) }),
    ...(given.get('token') === null ? {} : { token: given.get('token') ?? '' }),
    ...(given.get('creds') === null ? {} : { credentials: given.get('creds') ?? '' }),
    ...(tls === undefined ? {} : { tls }),
  }
}

function tlsOf(given: URLSearchParams, isAsked: boolean): NatsAddress['tls'] {
  const tls = Object.fromEntries(
    (['ca', 'cert', 'key'] as const).flatMap((name) => {
      const path = given.get(`tls_${name}`)
      return path === null ? [] : [[name, path]]
    }),
  )
  return isAsked || Object.keys(tls).length > 0 ? tls : undefined
}

function withoutSecrets(text: string): string {
  return text.replace(/\/\/[^@/]*@/, '//…@').replace(/token=[^&]*/, 'token=…')
}
