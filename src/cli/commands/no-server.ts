/**
 * Turns the failure of a request to a server into a sentence that says what to do.
 */
import { BatonError } from '../../base/index.ts'
import { limitSentence } from '../guard/last-words.ts'

/** By the error code of the operating system, of TLS or of fetch, or by the message of an error without one. */
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
  [/^bad port$/, ({ port }) => `port ${port} is one that HTTP clients refuse: use another`],
  [
    /Timeout|TIMEOUT/,
    (_, withinMs) =>
      `it accepted the connection but did not answer ${withinMs === undefined ? 'in time' : `within ${withinMs / 1000} s`}`,
  ],
]

/** Only these mean that nothing is there. */
const NOBODY = /^(?:ECONNREFUSED|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN)$/

/** `withinMs`: how long the caller waited for an answer. */
export function noServer(url: string, cause: unknown, withinMs?: number): BatonError {
  // A limit of this process says nothing about the server.
  const message = limitSentence(cause) ?? sentenceFor(url, cause, withinMs)
  return new BatonError('transport.cannot_connect', message, { cause })
}

function sentenceFor(url: string, cause: unknown, withinMs?: number): string {
  const [code, name] = [failureCode(cause), failureName(cause)]
  const reason = REASONS.find(([codes]) => codes.test(code) || codes.test(name))?.[1]
  if (reason !== undefined) return `no answer from ${url}: ${reason(new URL(url), withinMs)}`
  const advice = "start one with 'baton serve', or name it with --url"
  return NOBODY.test(code)
    ? `no server at ${url}: ${advice}`
    : `no answer from ${url} (${name}): check that a server is there; ${advice}`
}

/** The code of the failure, or the message of its innermost cause when it has none. */
export function failureName(error: unknown): string {
  const code = failureCode(error)
  return /^[A-Z_0-9]+$/.test(code) ? code : innermost(error)
}

function innermost(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : innermost(error.cause)
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
