/** How the client library connects to the servers of an address: with which login and certificates, and how often. */
import type { ConnectionOptions } from '@nats-io/transport-node'
import { BatonError, messageOf } from '../../base/index.ts'
import { readBoundedBytes } from '../../os/index.ts'
import type { NatsAddress } from './nats-address.ts'

const CONNECT_MS = 3_000
/** The time between two attempts. */
export const RETRY_MS = 500

/** Throws `config.invalid` when a file of the address cannot be read. */
export async function connectOptions(
  address: NatsAddress,
  pingMs: number,
): Promise<ConnectionOptions> {
  const { user, password, token, credentials, tls } = address
  const { credsAuthenticator } = await import('@nats-io/transport-node')
  return {
    servers: [...address.servers],
    name: 'baton',
    timeout: CONNECT_MS,
    maxReconnectAttempts: -1,
    // The library would give up for ever after two refused logins, although an operator may correct them.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: RETRY_MS,
    reconnectJitter: RETRY_MS,
    pingInterval: pingMs,
    maxPingOut: 2,
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { pass: password }),
    ...(token === undefined ? {} : { token }),
    ...(credentials === undefined
      ? {}
      : { authenticator: credsAuthenticator(newest('creds', credentials)) }),
    ...(tls === undefined ? {} : { tls: newestTls(tls) }),
  }
}

/** Read for each connection, because certificates are renewed. */
function newestTls(paths: NonNullable<NatsAddress['tls']>): NonNullable<ConnectionOptions['tls']> {
  const tls = {}
  for (const name of ['ca', 'cert', 'key'] as const) {
    const path = paths[name]
    if (path === undefined) continue
    const bytes = newest(`tls_${name}`, path)
    // The library reads the members of this object anew for each connection.
    Object.defineProperty(tls, name, {
      enumerable: true,
      get: () => new TextDecoder().decode(bytes()),
    })
  }
  return tls
}

function read(name: string, path: string): Uint8Array {
  try {
    return readBoundedBytes(path)
  } catch (cause) {
    const text = `nats: ${name}=${path} cannot be read: ${messageOf(cause)}`
    throw new BatonError('config.invalid', text, { cause })
  }
}

/** Reads the file for each connection. One that is missing, because it is being replaced, changes nothing. */
function newest(name: string, path: string): () => Uint8Array {
  let last = read(name, path)
  return () => {
    try {
      last = read(name, path)
    } catch {
      // The server decides whether the last ones are still valid.
    }
    return last
  }
}
