/**
 * Where a fleet meets, as one text: `memory`, `file:DIR`, `static:HOST:PORT,…`, `nats://HOST:PORT[,…]`,
 * `kubernetes[:namespace/selector]`. The one place that reads it.
 */
import { BatonError } from '../base/index.ts'

export interface NatsAddress {
  readonly kind: 'nats'
  /** `host:port` each. */
  readonly servers: readonly string[]
  /** Before the names of buckets and subjects: several fleets may share a server. */
  readonly prefix: string
  readonly user?: string
  readonly password?: string
  readonly token?: string
  /** Path of a `.creds` file. */
  readonly credentials?: string
  /** Absent: no TLS, unless the server asks for it. Paths of PEM files. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
}

export type DiscoveryAddress =
  | { readonly kind: 'memory' }
  | { readonly kind: 'file'; readonly folder: string }
  | { readonly kind: 'static'; readonly addresses: readonly HostPort[] }
  | NatsAddress
  | { readonly kind: 'kubernetes'; readonly namespace?: string; readonly selector?: string }

export interface HostPort {
  readonly host: string
  readonly port: number
}

const FORMS =
  'memory, file:<folder>, static:<host>:<port>,…, nats://<host>:4222[,…] or kubernetes[:<namespace>/<selector>]'
const NATS_PORT = 4222
const NATS_PARAMETERS = new Set(['prefix', 'token', 'creds', 'tls_ca', 'tls_cert', 'tls_key'])

/** Throws `config.invalid`. */
export function parseDiscovery(text: string): DiscoveryAddress {
  const trimmed = text.trim()
  if (trimmed === 'memory' || trimmed === 'memory:') return { kind: 'memory' }
  const [, scheme = '', rest = ''] = /^([a-z]+):?(.*)$/s.exec(trimmed) ?? []
  switch (scheme) {
    case 'file':
      return { kind: 'file', folder: folderOf(trimmed, rest) }
    case 'static':
      return { kind: 'static', addresses: addressesOf(trimmed, rest) }
    case 'nats':
    case 'tls':
      return parseNatsAddress(trimmed, '--discovery')
    case 'kubernetes':
      return kubernetesOf(rest)
    default:
      throw invalid(trimmed, `expected ${FORMS}`)
  }
}

/** For people: without what is secret. */
export function describeDiscovery(address: DiscoveryAddress): string {
  switch (address.kind) {
    case 'memory':
      return 'memory'
    case 'file':
      return address.folder
    case 'static':
      return `static:${address.addresses.map(({ host, port }) => `${host}:${port}`).join()}`
    case 'nats':
      return `nats://${address.servers.join()} (${address.prefix})`
    case 'kubernetes':
      return `kubernetes:${address.namespace ?? ''}/${address.selector ?? ''}`
  }
}

function folderOf(text: string, rest: string): string {
  // file:DIR, file:/DIR, file:///DIR
  const folder = rest.startsWith('//') ? rest.slice(2) : rest
  if (folder === '') throw invalid(text, 'a folder is missing behind file:')
  return folder
}

function addressesOf(text: string, rest: string): readonly HostPort[] {
  const addresses = rest
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map((part) => hostPortOf(text, part))
  if (addresses.length === 0) throw invalid(text, 'addresses are missing behind static:')
  const names = new Set(addresses.map(({ host, port }) => `${host}:${port}`))
  if (names.size !== addresses.length) throw invalid(text, 'an address stands there twice')
  return addresses
}

function hostPortOf(
  text: string,
  part: string,
  standard?: number,
  option = '--discovery',
): HostPort {
  const [, host = '', digits] = /^(\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(part) ?? []
  const port = digits === undefined ? standard : Number(digits)
  if (host === '' || port === undefined || port < 1 || port > 65_535) {
    throw invalidFor(option, text, `'${part}' is not <host>:<port>`)
  }
  return { host: host.replace(/^\[|\]$/g, ''), port }
}

/** `option`: for what is wrong with it. Throws `config.invalid`. */
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
    .map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
  const given = new URLSearchParams(query)
  const unknown = [...given.keys()].find((name) => !NATS_PARAMETERS.has(name))
  if (unknown !== undefined) {
    const known = [...NATS_PARAMETERS].join(', ')
    throw invalid(withoutSecrets(text), `unknown parameter '${unknown}'; there are ${known}`)
  }
  const prefix = given.get('prefix') ?? 'baton'
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(prefix)) {
    throw invalid(withoutSecrets(text), 'prefix may have letters, digits, - and _, at most 64')
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

function kubernetesOf(rest: string): DiscoveryAddress {
  const slash = rest.indexOf('/')
  const [namespace, selector] =
    slash < 0 ? [rest, ''] : [rest.slice(0, slash), rest.slice(slash + 1)]
  return {
    kind: 'kubernetes',
    ...(namespace === '' ? {} : { namespace }),
    ...(selector === '' ? {} : { selector }),
  }
}

function withoutSecrets(text: string): string {
  return text.replace(/\/\/[^@/]*@/, '//…@').replace(/token=[^&]*/, 'token=…')
}

function invalid(text: string, why: string): BatonError {
  return invalidFor('--discovery', text, why)
}

function invalidFor(option: string, text: string, why: string): BatonError {
  return new BatonError('config.invalid', `${option}: '${text}' is invalid: ${why}`)
}
