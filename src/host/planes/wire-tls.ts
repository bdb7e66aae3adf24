/**
 * TLS below the wire, always mutual: both sides show a certificate of the fleet's own authority.
 *
 * A certificate says that its holder is of the fleet, not at which address it lives, since workers come and go; so
 * names in it are not compared. Use an authority that signs for nothing else.
 */
import { connect, createServer } from 'node:net'
import type { Server, ServerOpts, Socket, TcpNetConnectOpts } from 'node:net'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'

/** PEM texts. */
export interface WireTls {
  readonly cert: string
  readonly key: string
  /** The authority that has signed the certificates of all peers. */
  readonly ca: string
}

const HANDSHAKE_MS = 5_000
const TLS_OLDEST = 'TLSv1.3'

/** Hands on connections whose TLS handshake, if there is one, has succeeded. */
export function createWireServer(
  tls: WireTls | undefined,
  options: ServerOpts,
  onConnection: (socket: Socket) => void,
): Server {
  if (tls === undefined) return createServer(options, onConnection)
  const server = createTlsServer({
    ...options,
    ...tls,
    minVersion: TLS_OLDEST,
    handshakeTimeout: HANDSHAKE_MS,
    requestCert: true,
    rejectUnauthorized: true,
  })
  return server.on('secureConnection', onConnection)
}

/** Where a connection's bytes are read to, time after time, instead of into a fresh buffer for each read. */
export interface WireReader {
  readonly buffer: Uint8Array | (() => Uint8Array)
  /** The bytes are only valid during the call. */
  receive(bytes: Uint8Array): void
}

/** Calls back when the connection, with TLS if wanted, stands. Failures before that are 'error' events. */
export function dialWire(
  tls: WireTls | undefined,
  { host, port }: { readonly host: string; readonly port: number },
  onConnected: () => void,
  reader?: WireReader,
): Socket {
  const options: TcpNetConnectOpts = { host, port, noDelay: true }
  if (tls !== undefined) {
    // TLS has a read buffer of its own; the wire listens to 'data' then.
    const checkServerIdentity = (): undefined => undefined
    return connectTls(
      { ...options, ...tls, minVersion: TLS_OLDEST, checkServerIdentity },
      onConnected,
    )
  }
  if (reader === undefined) return connect(options, onConnected)
  const onread = {
    buffer: reader.buffer,
    callback: (count: number, into: Uint8Array): boolean => {
      reader.receive(into.subarray(0, count))
      return true
    },
  }
  return connect({ ...options, onread }, onConnected)
}
