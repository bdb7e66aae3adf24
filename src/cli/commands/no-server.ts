/**
 * Turns the failure of a request to a server into a sentence that says what to do.
 */
import { BatonError } from '../../base/index.ts'

/** By the error code of the operating system, of TLS or of fetch. */
const REASONS: readonly (readonly [
  codes: RegExp,
  reason: (url: URL, withinMs?: number) => string,
])[] = [
  [
    /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(?:VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(?:_LOCALLY)?))$/,
    () =>
      'its certificate is not signed by an authority that is trusted here: set NODE_EXTRA_CA_CERTS to the PEM file of that authority',
  ],
  [/^CERT_HAS_EXPIRED$/, () => 'its certificate has expired'],
  [/^CERT_NOT_YET_VALID$/, () => 'its certificate is not valid yet: compare the clocks'],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    ({ hostname }) =>
      `its certificate is not valid for ${hostname}: use a name that the certificate contains`,
  ],
  [
    /^(?:ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG|EPROTO)$/,
    ({ host }) => `it does not speak HTTPS: try http://${host}`,
  ],
  [/^(?:ENOTFOUND|EAI_AGAIN)$/, ({ hostname }) => `the host name ${hostname} cannot be resolved`],
  [/^UND_ERR_SOCKET$/, () => 'it closed the connection without an answer: try https://'],
  [
    /Timeout|TIMEOUT/,
    (_, withinMs) =>
      `it accepted the connection but did not answer ${withinMs === undefined ? 'in time' : `within ${withinMs / 1000} s`}`,
  ],
]

/** `withinMs`: how long the caller waited for an answer. */
export function noServer(url: string, cause: unknown, withinMs?: number): BatonError {
  const code = failureCode(cause)
  const reason = REASONS.find(([codes]) => codes.test(code))?.[1]
  const message =
    reason === undefined
      ? `no server at ${url}: start one with 'baton serve', or name it with --url`
      : `no answer from ${url}: ${reason(new URL(url), withinMs)}`
  return new BatonError('transport.cannot_connect', message, { cause })
}

/**
 * The code of the innermost cause, because fetch wraps errors. A timeout has no code and is recognised by its
 * name.
 */
export function failureCode(error: unknown): string {
  if (!(error instanceof Error)) return ''
  const { code } = error as { readonly code?: unknown }
  if (typeof code === 'string') return code
  return error.cause === undefined ? error.name : failureCode(error.cause)
}
