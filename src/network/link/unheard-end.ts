/**
 * Why a connection has ended on which nothing was received.
 *
 * With TLS 1.3 the connecting side is connected before the peer has judged its certificate, and a peer that refuses it
 * closes the connection without saying so (one that accepts it sends HELLO at once). The reason is in the log of the
 * peer only, unless it is the age of the certificate.
 */
import type { X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { BatonError } from '../../base/index.ts'
import { whyUnusable } from './certificate-term.ts'
import { wireFailure } from './wire-tls.ts'

/** The peer has closed the connection: it depends on what was in flight which of them is seen, if any. */
const HUNG_UP: ReadonlySet<string> = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE'])

/** Call it when the connection begins: a socket that has ended has no certificate any more. Null: an end in order. */
export function unheardEndOf(
  socket: Socket,
  isAcceptor: boolean,
): (error: NodeJS.ErrnoException | null) => BatonError {
  if (socket instanceof TLSSocket) {
    // A connection is accepted after both certificates were judged.
    if (isAcceptor) return (error) => closed(error, '')
    const own = socket.getX509Certificate() ?? null
    return (error) =>
      error === null || HUNG_UP.has(error.code ?? '')
        ? refusedCertificate(own, error)
        : closed(error, '')
  }
  return (error) => closed(error, ' without a message: does it require TLS?')
}

function closed(error: Error | null, hint: string): BatonError {
  if (error !== null) return wireFailure(error, 'transport.disconnected')
  return new BatonError('transport.disconnected', `the peer closed the connection${hint}`)
}

function refusedCertificate(own: X509Certificate | null, error: Error | null): BatonError {
  const why = own === null ? null : whyUnusable(own, Date.now())
  const advice = why ?? 'is it signed by the authority in the --tls-ca of the peer?'
  const text = `TLS handshake failed: the peer has refused the certificate of this process (--tls-cert): ${advice}`
  return new BatonError('transport.tls_failed', text, { cause: error })
}
