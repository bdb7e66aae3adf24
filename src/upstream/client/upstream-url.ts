/**
 * Parses the address of an upstream server as a user writes it.
 */
import { BatonError } from '../../base/index.ts'

export interface UpstreamUrl {
  /** For display: without a trailing slash and without a password. */
  readonly text: string
  readonly isTls: boolean
  readonly host: string
  readonly port: number
  /** The prefix of every path; empty, or starts with a slash. */
  readonly basePath: string
  /** Value of the Host header. */
  readonly hostHeader: string
  /** The expected name in the certificate when the address was resolved from a name. */
  readonly hostName?: string
  /** `Basic …` when the address contains a name and a password. */
  readonly authorization?: string
}

/**
 * A missing `http://` is added. `hostName`: the name that the URL's address was resolved from. Throws
 * `config.invalid`.
 */
export function parseUpstreamUrl(written: string, hostName?: string): UpstreamUrl {
  const text = written.includes('://') ? written : `http://${written}`
  let url: URL
  try {
    url = new URL(text)
  } catch (cause) {
    throw invalid(written, 'it is not a URL', cause)
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw invalid(written, 'only http:// and https:// are supported')
  }
  if (url.search !== '' || url.hash !== '')
    throw invalid(written, 'it must end with the path, without a query or fragment')
  const isTls = url.protocol === 'https:'
  const basePath = url.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')
  const { username, password } = url
  const secret = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return {
    text: `${url.protocol}//${url.host}${basePath}`,
    isTls,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (isTls ? 443 : 80) : Number(url.port),
    basePath,
    hostHeader:
      hostName === undefined ? url.host : `${hostName}${url.port === '' ? '' : `:${url.port}`}`,
    ...(hostName === undefined ? {} : { hostName }),
    ...(username === '' && password === ''
      ? {}
      : { authorization: `Basic ${Buffer.from(secret).toString('base64')}` }),
  }
}

function invalid(written: string, why: string, cause?: unknown): BatonError {
  const shown = written.replace(/\/\/[^/@]*@/, '//…@')
  return new BatonError(
    'config.invalid',
    `upstream ${shown} is invalid: ${why}; expected for example http://gpu-1:8000`,
    cause === undefined ? {} : { cause },
  )
}
