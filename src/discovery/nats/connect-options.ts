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
    ...(tls === undefined
      ? {}
      : {
          tls: {
            ...(tls.ca === undefined ? {} : { ca: text('tls_ca', tls.ca) }),
            ...(tls.cert === undefined ? {} : { cert: text('tls_cert', tls.cert) }),
            ...(tls.key === undefined ? {} : { key: text('tls_key', tls.key) }),
          },
        }),
  }
}

function read(name: string, path: string): Uint8Array {
  try {
    return readBoundedBytes(path)
  } catch (cause) {
    const text = `nats: ${name}=${path} cannot be read: ${messageOf(cause)}`
    throw new BatonError('config.invalid', text, { cause })
  }
}

/** Reads the file for each connection, because credentials are renewed. A file that is being replaced is not needed. */
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

function text(name: string, path: string): string {
  return new TextDecoder().decode(read(name, path))
}
