/**
 * Why a connection to an upstream could not be opened, in words for the operator's log: without an address, because
 * the text may reach clients.
 */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'its host name is unknown',
  EAI_AGAIN: 'its host name could not be resolved',
  EHOSTUNREACH: 'there is no route to its host',
  ENETUNREACH: 'there is no route to its network',
  ETIMEDOUT: 'its host does not answer',
  ECONNRESET: 'it closed the connection',
}
const CERTIFICATE = /^(?:CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_CA|ERR_TLS_CERT_)/
const TLS = /^(?:ERR_SSL_|EPROTO)/

export function connectFailure(cause: NodeJS.ErrnoException | null): string {
  const code = cause?.code
  if (code === undefined) return 'cannot be reached'
  if (CERTIFICATE.test(code)) {
    return `cannot be reached: its certificate is not trusted (${code}); the variable NODE_EXTRA_CA_CERTS names a file with more authorities`
  }
  if (TLS.test(code)) return 'cannot be reached: it does not speak TLS; use http:// if it has none'
  return `cannot be reached: ${REASONS[code] ?? code}`
}
