/**
 * Why a server gave no answer, as a sentence with what to do.
 */
import { BatonError } from '../../base/index.ts'

/** By the code of the system, of TLS or of fetch. */
const REASONS: readonly (readonly [codes: RegExp, reason: (url: URL) => string])[] = [
  [
    /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(?:VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(?:_LOCALLY)?))$/,
    () =>
      'its certificate is not signed by an authority that is trusted here: put the PEM of who signed it into NODE_EXTRA_CA_CERTS',
  ],
  [/^CERT_HAS_EXPIRED$/, () => 'its certificate has expired'],
  [/^CERT_NOT_YET_VALID$/, () => 'its certificate is not valid yet: compare the clocks'],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    ({ hostname }) => `its certificate is not made for ${hostname}: use a name that is in it`,
  ],
  [
    /^(?:ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH_TOO_LONG|EPROTO)$/,
    ({ host }) => `it does not speak HTTPS there: try http://${host}`,
  ],
  [/^(?:ENOTFOUND|EAI_AGAIN)$/, ({ hostname }) => `${hostname} is not a name that is known here`],
  [/^UND_ERR_SOCKET$/, () => 'it closed the connection without an answer: is it HTTPS there?'],
  [/Timeout|TIMEOUT/, () => 'it has the connection and does not answer in time'],
]

export function noServer(url: string, cause: unknown): BatonError {
  const code = failureCode(cause)
  const reason = REASONS.find(([codes]) => codes.test(code))?.[1]
  const message =
    reason === undefined
      ? `no server at ${url}: start one with 'baton serve', or name it with --url`
      : `no answer from ${url}: ${reason(new URL(url))}`
  return new BatonError('transport.cannot_connect', message, { cause })
}

/** fetch wraps what happened; a deadline is an error without a code, known by its name. */
export function failureCode(error: unknown): string {
  if (!(error instanceof Error)) return ''
  const { code } = error as { readonly code?: unknown }
  if (typeof code === 'string') return code
  return error.cause === undefined ? error.name : failureCode(error.cause)
}
