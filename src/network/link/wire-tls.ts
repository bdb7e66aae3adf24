/**
 * TLS for connections between processes, always mutual: both sides show a certificate of the fleet's own authority.
 *
 * A certificate shows that its holder belongs to the fleet, not its address, because workers come and go; names in
 * certificates are therefore not checked. Use an authority that signs nothing else.
 */
import { X509Certificate } from 'node:crypto'
import { connect, createServer } from 'node:net'
import type { Server, ServerOpts, Socket, TcpNetConnectOpts } from 'node:net'
import { BatonError, messageOf } from '../../base/index.ts'
import type { ErrorCode } from '../../base/index.ts'
import { whyUnusable } from './certificate-term.ts'
import { ConnectionGate } from './connection-gate.ts'
import type { GateLimits } from './connection-gate.ts'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import type { SecureContextOptions } from 'node:tls'

/** PEM texts, which may be replaced while the process runs: read them for each connection. */
export interface WireTls {
  readonly cert: string
  readonly key: string
  /** The certificate of the authority that has signed the certificates of all peers. */
  readonly ca: string
  /** Calls back when they were replaced; returns a function that ends it. Absent: they stay the same. */
  onChange?(listener: () => void): () => void
}

const HANDSHAKE_MS = 5_000
const TLS_OLDEST = 'TLSv1.3'

export interface WireServerOptions extends ServerOpts {
  readonly gate?: Partial<GateLimits>
}

/**
 * Passes on connections after their TLS handshake, if TLS is used. They count as unauthenticated until `admit` is
 * called, which a `WireSocket` does at the end of its own handshake.
 */
export function createWireServer(
  tls: WireTls | undefined,
  { gate: limits, ...options }: WireServerOptions,
  onConnected: (socket: Socket, admit: () => BatonError | null) => void,
  onRefused: (fault: BatonError) => void = () => undefined,
): Server {
  const gate = new ConnectionGate(limits)
  const onConnection = (socket: Socket): void => onConnected(socket, () => gate.admit(socket))
  if (tls === undefined) {
    return createServer(options)
      .on('connection', (socket) => gate.enter(socket))
      .on('connection', onConnection)
  }
  const server = createTlsServer({
    ...options,
    ...contextOf(tls),
    handshakeTimeout: HANDSHAKE_MS,
    requestCert: true,
    rejectUnauthorized: true,
  })
  // Connections that exist keep theirs.
  const endRenewal = tls.onChange?.(() => server.setSecureContext(contextOf(tls)))
  server.on('close', () => endRenewal?.())
  server.on('connection', (socket: Socket) => gate.enter(socket))
  // Connections that have started TLS, known from the keylog event. A port probe without TLS is not reported.
  const begun = new WeakSet<Socket>()
  server.on('keylog', (_, socket) => begun.add(socket))
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    // Node leaves the connection open, and the server would wait for it when it closes.
    if (error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT') socket.destroy()
    if (error.code !== 'ECONNRESET') onRefused(wireFailure(error))
    else if (begun.has(socket)) onRefused(distrusted(socket.authorizationError, tls.cert, error))
  })
  return server.on('secureConnection', onConnection)
}

function contextOf({ cert, key, ca }: WireTls): SecureContextOptions {
  return { cert, key, ca, minVersion: TLS_OLDEST }
}

/** The failure of a socket. When TLS is the cause, message and code say so; otherwise the code is `code`. */
export function wireFailure(
  error: NodeJS.ErrnoException,
  code: ErrorCode = 'transport.cannot_connect',
): BatonError {
  const { reason } = error as { readonly reason?: unknown }
  const isTls = /^ERR_(SSL|TLS)_/.test(error.code ?? '') || CERTIFICATE_FAULTS.has(error.code ?? '')
  if (!isTls) return new BatonError(code, messageOf(error), { cause: error })
  const why = typeof reason === 'string' ? reason : error.message
  const hint = /wrong version number|http request|unknown protocol/.test(why)
    ? 'the peer does not use TLS'
    : advice(error.code ?? '')
  return new BatonError('transport.tls_failed', `TLS handshake failed: ${why}; ${hint}`, {
    cause: error,
  })
}

function advice(code: string): string {
  if (code === 'CERT_HAS_EXPIRED') return 'renew the certificate of the peer, or correct a clock'
  if (code === 'CERT_NOT_YET_VALID') return 'correct the clock of one of the two machines'
  return 'are both certificates signed by the authority in --tls-ca?'
}

/** A side that refuses a certificate closes the connection without saying so. `cert`: PEM, of this side. */
function distrusted(reason: Error | string | null, cert: string, cause: Error): BatonError {
  const why =
    reason === null ? 'the peer closed the connection' : `certificate refused: ${String(reason)}`
  const ownFault = reason === null ? whyUnusable(new X509Certificate(cert), Date.now()) : null
  const hint =
    ownFault === null ? advice(String(reason)) : `the certificate of this process: ${ownFault}`
  return new BatonError('transport.tls_failed', `TLS handshake failed: ${why}; ${hint}`, { cause })
}

/** OpenSSL's error codes, as Node reports them. */
const CERTIFICATE_FAULTS: ReadonlySet<string> = new Set([
  'CERT_CHAIN_TOO_LONG',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'CERT_REJECTED',
  'CERT_REVOKED',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** A read buffer for a connection that is reused for each read. */
export interface WireReader {
  readonly buffer: Uint8Array | (() => Uint8Array)
  /** The bytes are only valid during the call. */
  receive(bytes: Uint8Array): void
}

/** Calls back when the connection is established, including TLS if used. Earlier failures are 'error' events. */
export function dialWire(
  tls: WireTls | undefined,
  { host, port }: { readonly host: string; readonly port: number },
  onConnected: () => void,
  reader?: WireReader,
): Socket {
  const options: TcpNetConnectOpts = { host, port, noDelay: true }
  if (tls !== undefined) {
    // TLS has a read buffer of its own; the connection uses 'data' events then.
    const checkServerIdentity = (): undefined => undefined
    return connectTls({ ...options, ...contextOf(tls), checkServerIdentity }, onConnected)
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
